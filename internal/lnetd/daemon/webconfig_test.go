package daemon

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// secretHash is "secret", hashed at the lowest cost.
const secretHash = "$2a$04$6PZ9jJIjqomm9fpzuo4bVeu/k.9dUsgA4u3EgXlENgM1DC4AGCCiS"

// Given metrics with passwords, when the file is changed, then the change applies at once, and a
// reload reports errors in it. lnetd continues in both cases.
func TestWebConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("basic_auth_users: {scraper: " + secretHash + "}\n")
	const text = "lnetd: {metrics_addr: '127.0.0.1:0', metrics: {web_config: "
	r := startDaemon(t, host(lo), text+path+"}}")
	r.ready(t)
	_, rest, _ := strings.Cut(r.log.String(), `"msg":"serving metrics","address":"`)
	addr, _, _ := strings.Cut(rest, `"`)
	status := func(password string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q.SetBasicAuth("scraper", password)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	reload := func(path, want string) {
		t.Helper()
		c, err := config.Parse("test.yaml", []byte(text+path+"}}"), r.drivers.Options())
		if err != nil {
			t.Fatal(err)
		}
		c.ControlSocket = r.socket
		r.Reload(context.Background(), func() (config.Config, error) { return c, nil })
		<-r.states // RELOADING
		<-r.states // READY
		if log := r.log.String(); strings.Count(log, want) != 1 {
			t.Errorf("the log does not say %q once:\n%s", want, log)
		}
	}
	if secret, wrong := status("secret"), status("wrong"); secret != http.StatusOK || wrong != http.StatusUnauthorized {
		t.Errorf("status %d with the password, %d with another", secret, wrong)
	}
	reload(path, "configuration reloaded")
	write("a: [")
	reload(path, "metrics requests are refused until the web_config file is corrected")
	if got := status("secret"); got != http.StatusInternalServerError {
		t.Errorf("status %d with errors", got)
	}
	if got := r.record.get(); !got.LastFailed || got.Failed != 1 || !strings.Contains(r.heard(), "; the last reload failed: ") {
		t.Errorf("of the reload is known %+v, the status is %q", got, r.heard())
	}
	write("{}")
	if got := status("whatever"); got != http.StatusOK {
		t.Errorf("status %d without passwords", got)
	}
	reload(path+"2", `only when lnetd is restarted","changes":["metrics"]`)
	r.stop(t)
}

// A web_config that cannot be read ends lnetd before anything is up.
func TestWebConfigIsMissing(t *testing.T) {
	r := startDaemon(t, host(lo), "lnetd: {metrics_addr: '127.0.0.1:0', metrics: {web_config: /nonexistent/web.yml}}")
	if f := r.fault(t, api.CodeConfigInvalid); !strings.Contains(f.Cause, "/nonexistent/web.yml") {
		t.Errorf("%+v", f)
	}
}
