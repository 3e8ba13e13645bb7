package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// unpack returns the files of an archive by name, without the directory.
func unpack(t *testing.T, archive io.Reader, dir string) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		name, ok := strings.CutPrefix(h.Name, dir+"/")
		if err != nil || !ok || h.Mode != 0o600 || !h.ModTime.Equal(at) {
			t.Errorf("%s: mode %o, time %v, %v", h.Name, h.Mode, h.ModTime, err)
		}
		files[name] = string(text)
	}
}

// TestBundle: given files that can be collected, that cannot, that are too long, and that take too long, then the
// archive has those that it can have, without secrets, and the list says what is missing and why.
func TestBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		b := Bundle{Name: "dir", Version: "v1", Now: at, Report: func(f File) { reported = append(reported, f.String()) }}
		text := func(s string) func(context.Context) ([]byte, error) {
			return func(context.Context) ([]byte, error) { return []byte(s), nil }
		}
		var out bytes.Buffer
		err := b.write(t.Context(), &out, []source{
			{"good.txt", "something", text("password: hunter2\nnid: 10.0.0.1@tcp\n")},
			{"bad.txt", "something", func(context.Context) ([]byte, error) { return nil, errors.New("no\nsuch file") }},
			{"long.txt", "something", text(strings.Repeat("x", fileMax+1))},
			{"slow.txt", "something", func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }},
		})
		if err != nil {
			t.Fatal(err)
		}
		files := unpack(t, &out, "dir")
		wantList := []string{
			"good.txt                          39  something",
			"bad.txt                    missing: no such file",
			"long.txt                    16777216  something; its end is missing",
			"slow.txt                   missing: context deadline exceeded",
		}
		if diff := cmp.Diff(wantList, reported); diff != "" {
			t.Error(diff)
		}
		if got, want := files["good.txt"], "password: (redacted)\nnid: 10.0.0.1@tcp\n"; got != want {
			t.Errorf("%q", got)
		}
		if len(files) != 3 || len(files["long.txt"]) != fileMax {
			t.Errorf("%d files, %d bytes", len(files), len(files["long.txt"]))
		}
		for _, line := range append(wantList, "Made by lnetdctl v1 at 2026-01-02T03:04:05Z.", "- private keys, because they may give access to something") {
			if !strings.Contains(files[contentsName], line+"\n") {
				t.Errorf("no %q in the list:\n%s", line, files[contentsName])
			}
		}
	})
}

// TestBundleOfLnetd: given a running lnetd, and none, then the archive has what lnetd says in the first case, and in both
// cases the findings of doctor and the facts about the host.
func TestBundleOfLnetd(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := &controltest.Daemon{Is: api.Version{Program: "lnetd", PID: 1 << 30}, EventsFunc: func(api.EventFilter) server.Stream {
		lines := make(chan string, 1)
		lines <- "{}\n"
		close(lines)
		return controltest.Lines(lines)
	}}
	s := httptest.NewUnstartedServer((&server.Server{Backend: d}).Handler())
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	for _, tt := range []struct {
		name, socket   string
		there, missing []string
	}{
		{"running", path, []string{"version.json", "nets.json", "peers.json", "events.jsonl", "configuration.json", "stats.json", "doctor.json", "host/system.txt"}, nil},
		{"not running", path + "x", []string{"doctor.json", "host/system.txt", "host/interfaces.txt", "host/network.txt"}, []string{"version.json", "nets.json", "host/process.txt"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := client.New(tt.socket)
			defer c.Close()
			missing := map[string]bool{}
			b := Bundle{Client: c, Name: "dir", Now: at, Config: "/nonexistent", Report: func(f File) { missing[f.Name] = f.Err != nil }}
			var out bytes.Buffer
			if err := b.Write(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			files := unpack(t, &out, "dir")
			for _, name := range tt.there {
				if files[name] == "" {
					t.Errorf("no %s; missing: %v", name, missing)
				}
			}
			for _, name := range append(tt.missing, "lnetd.yaml") {
				if _, there := files[name]; there || !missing[name] {
					t.Errorf("%s is there", name)
				}
			}
		})
	}
}

// TestBundleEnds: given a disk that is full, or a user who interrupts, then Write returns the error.
func TestBundleEnds(t *testing.T) {
	c := client.New("/nonexistent")
	defer c.Close()
	full := errors.New("the disk is full")
	b := Bundle{Client: c, Name: "dir", Now: at}
	if err := b.write(t.Context(), failing{full}, []source{{"a", "", func(context.Context) ([]byte, error) {
		return bytes.Repeat([]byte("random 17"), 1<<20), nil
	}}}); !errors.Is(err, full) {
		t.Errorf("full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestRedact checks what is replaced in texts of all forms, and what is not.
func TestRedact(t *testing.T) {
	for given, want := range map[string]string{
		`{"password": "a\"b c", "nid": "10.0.0.1@tcp"}`:                          `{"password": "(redacted)", "nid": "10.0.0.1@tcp"}`,
		`{"api_token":"x","credits":8}`:                                          `{"api_token":"(redacted)","credits":8}`,
		`"body":"{\"secret\":\"a b\",\"n\":1}"`:                                  `"body":"{\"secret\":\"(redacted)\",\"n\":1}"`,
		"web_password: hunter2 # mine\nx: 1":                                     "web_password: (redacted) # mine\nx: 1",
		"Secret: 'a b'":                                                          "Secret: '(redacted)'",
		"lnetd --token=abc --net tcp":                                            "lnetd --token=(redacted) --net tcp",
		"https://me:pw@host/x and http://host/y":                                 "https://(redacted)@host/x and http://host/y",
		"Authorization: Bearer abc.def":                                          "Authorization: Bearer (redacted)",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx": "(redacted)\nx",
		"-----BEGIN PRIVATE KEY-----\nabc":                                       "(redacted)",
		"user: $2y$10$" + strings.Repeat("a", 53):                                "user: (redacted)",
		"10.0.0.1@tcp eth0 peer_credits: 8, /etc/lnetd/lnetd.yaml":               "10.0.0.1@tcp eth0 peer_credits: 8, /etc/lnetd/lnetd.yaml",
	} {
		if got := string(redact([]byte(given))); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}
