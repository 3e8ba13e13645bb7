package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// patience is the time limit for things that Prometheus does every second.
const patience = 2 * time.Minute

// server is a Prometheus in the server namespace of a world.
type server struct {
	client http.Client
	log    *daemontest.Log
}

// waits are the waiting times of alerts.
var waits = regexp.MustCompile(`(?m)^( +for: ).*$`)

// prometheus runs a Prometheus that scrapes all hosts every second, with the shipped rules, except
// that alerts wait for two seconds instead of minutes.
func (w *world) prometheus(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	for _, name := range ruleFiles {
		text := waits.ReplaceAllString(read(t, in("deploy", "prometheus", name)), "${1}2s")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	targets := make([]string, len(w.hosts))
	for k := range targets {
		targets[k] = strconv.Quote(instance(k + 1))
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: lnetd
    static_configs: [{targets: [%s]}]
`, strings.Join(ruleFiles, ", "), strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const listen = "127.0.0.1:9090" // in the server namespace
	s := &server{log: &daemontest.Log{}}
	transport := &http.Transport{DialContext: dialIn(w.room())}
	s.client = http.Client{Transport: transport, Timeout: patience}
	cmd := exec.Command("ip", "netns", "exec", w.room(), "prometheus", "--config.file", config,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", listen)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = cmd.Process.Kill() // ip has executed prometheus
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus:\n%s", s.log)
		}
	})
	return s
}

// get sends a request to Prometheus' HTTP interface.
func (s *server) get(path string, query url.Values, into any) error {
	resp, err := s.client.Get("http://127.0.0.1:9090/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

// value returns the value of a query with one result.
func (s *server) value(query string) (float64, error) {
	var v struct {
		Result []struct{ Value [2]any }
	}
	if err := s.get("query", url.Values{"query": {query}}, &v); err != nil {
		return 0, err
	}
	if len(v.Result) != 1 {
		return 0, fmt.Errorf("%s has %d results", query, len(v.Result))
	}
	return strconv.ParseFloat(fmt.Sprint(v.Result[0].Value[1]), 64)
}

// firing returns the instances for which an alert fires.
func (s *server) firing(alert string) (instances []string, _ error) {
	var v struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := s.get("alerts", nil, &v); err != nil {
		return nil, err
	}
	for _, a := range v.Alerts {
		if a.State == "firing" && a.Labels["alertname"] == alert {
			instances = append(instances, a.Labels["instance"])
		}
	}
	return instances, nil
}
