package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetricsSection(t *testing.T) {
	c := mustParse(t, "lnetd: {metrics: {peers: 7, lustre_compat: true, status_page: true, web_config: /etc/lnetd/web.yml}}\n")
	if diff := cmp.Diff(Metrics{Peers: 7, LustreCompat: true, StatusPage: true, WebConfig: "/etc/lnetd/web.yml"}, c.Metrics); diff != "" {
		t.Error(diff)
	}
	if !c.Given.Lnetd["metrics"] {
		t.Errorf("given: %v", c.Given.Lnetd)
	}
	if diff := cmp.Diff(Metrics{Peers: 1000}, mustParse(t, "lnetd: {metrics: }\n").Metrics); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"no peers", "lnetd: {metrics: {peers: 0}}\n", []string{"f:1: lnetd.metrics.peers: 0 is not in 1 to 65536"}},
		{"too many peers", "lnetd: {metrics: {peers: 65537}}\n", []string{"f:1: lnetd.metrics.peers: 65537 is not in 1 to 65536"}},
		{"a word", "lnetd: {metrics: {lustre_compat: perhaps}}\n", []string{`f:1: lnetd.metrics.lustre_compat: "perhaps" is neither true nor false`}},
		{"a page", "lnetd: {metrics: {status_page: \"/\"}}\n", []string{`f:1: lnetd.metrics.status_page: "/" is neither true nor false`}},
		{"another key", "lnetd:\n    metrics:\n        webconfig: x\n", []string{"f:3: lnetd.metrics.webconfig: invalid key 'webconfig'"}},
		{"an address", "lnetd: {metrics: '127.0.0.1:9'}\n", []string{`f:1: lnetd.metrics: "127.0.0.1:9" was found, but keys were expected`}},
	})
}

// Settings of the command line override those of the file, even if they disable something.
func TestApplyMetrics(t *testing.T) {
	c := mustParse(t, "lnetd: {metrics: {lustre_compat: true, web_config: a}}\n")
	if err := c.Apply(Override{}, testDrivers); err != nil || !c.Metrics.LustreCompat || c.Metrics.WebConfig != "a" {
		t.Errorf("%+v, %v", c.Metrics, err)
	}
	if err := c.Apply(Override{LustreCompat: new(bool), WebConfig: "b"}, testDrivers); err != nil || c.Metrics.LustreCompat || c.Metrics.WebConfig != "b" {
		t.Errorf("%+v, %v", c.Metrics, err)
	}
}

// The example on the page about monitoring is valid.
func TestMonitoringPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	c := mustParse(t, text)
	if want := (Metrics{Peers: 1000, LustreCompat: true, StatusPage: true, WebConfig: "/etc/lnetd/web-config.yml"}); c.Metrics != want || c.MetricsAddr != "10.0.0.1:9989" {
		t.Errorf("%+v on %q", c.Metrics, c.MetricsAddr)
	}
}
