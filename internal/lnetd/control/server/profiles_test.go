package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// TestWhoMayProfile checks that only root and the daemon's user get profiles, and that a peer of
// unknown user is refused.
func TestWhoMayProfile(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false, anyUser: false} {
		if isAdministrator(uid) != want {
			t.Errorf("uid %d: %v", uid, !want)
		}
	}
	w := httptest.NewRecorder() // a connection without a user
	(&Server{Backend: &fakeBackend{}}).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"code":"forbidden"`) {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
}

// TestProfiles checks that the daemon's user gets each kind of profile.
func TestProfiles(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	startServer(t, path, &fakeBackend{})
	const gzip = "\x1f\x8b"
	for target, want := range map[string]string{
		"/debug/pprof/":                  "<html>",
		"/debug/pprof/heap":              gzip,
		"/debug/pprof/goroutine?debug=2": "goroutine ",
		"/debug/pprof/profile?seconds=1": gzip,
		"/debug/pprof/trace?seconds=0.1": "go 1.",
		"/debug/pprof/cmdline":           filepath.Base(os.Args[0]),
		"/debug/pprof/symbol":            "num_symbols",
	} {
		if r := request(t, path, http.MethodGet, target, ""); r.status != http.StatusOK || r.err != nil || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d, %v, %.40q", target, r.status, r.err, r.body)
		}
	}
}

// TestProfilesOfOthers checks that another user is refused, even with write access to the socket,
// and that root is not.
func TestProfilesOfOthers(t *testing.T) {
	testenv.NeedRoot(t)
	const nobody = 65534
	dir := t.TempDir()
	path := filepath.Join(dir, "c.sock")
	startServer(t, path, &fakeBackend{})
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace"} {
		r := requestAs(t, nobody, path, target)
		if r.status != http.StatusForbidden || !strings.Contains(r.body, `"code":"forbidden"`) {
			t.Errorf("%s: %d, %.80s", target, r.status, r.body)
		}
	}
	if r := requestAs(t, nobody, path, "/v1/version"); r.status != http.StatusOK {
		t.Errorf("nobody may ask nothing: %d, %s", r.status, r.body)
	}
	if r := requestAs(t, 0, path, "/debug/pprof/heap"); r.status != http.StatusOK {
		t.Errorf("root is refused: %d, %s", r.status, r.body)
	}
}

// TestDefaultServeMuxIsEmpty checks that no profile is registered with http.DefaultServeMux, where
// another server might serve it.
func TestDefaultServeMuxIsEmpty(t *testing.T) {
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile"} {
		_, pattern := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		if pattern != "" {
			t.Errorf("%s is served by %q", path, pattern)
		}
	}
}
