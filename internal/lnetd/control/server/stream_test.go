package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// endless is a stream without an end. It reports when its request is over.
type endless struct {
	data []byte // what Next returns; if it is empty, Next waits
	over chan struct{}
}

func (e *endless) Next(ctx context.Context) ([]byte, error) {
	if len(e.data) > 0 && ctx.Err() == nil {
		return e.data, nil
	}
	<-ctx.Done()
	close(e.over)
	return nil, context.Cause(ctx)
}

func follow(t *testing.T, c *client.Client) *client.Stream {
	t.Helper()
	s, err := c.Events(t.Context(), api.EventFilter{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStreamArrives: given a stream, then its data arrive when they exist, and its end is a normal one.
func TestStreamArrives(t *testing.T) {
	lines := make(chan string)
	var asked api.EventFilter
	c, _ := serve(t, &controltest.Daemon{EventsFunc: func(f api.EventFilter) server.Stream {
		asked = f
		return controltest.Lines(lines)
	}})
	want := api.EventFilter{Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Kinds: []string{"ni", "peer"}, Follow: true}
	s, err := c.Events(t.Context(), api.EventFilter{Since: want.Since, Kinds: []string{"peer", "ni", "peer"}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"one\n", "two\n"} {
		lines <- line
		got := make([]byte, len(line))
		if _, err := io.ReadFull(s, got); err != nil || string(got) != line {
			t.Errorf("%q, %v", got, err)
		}
	}
	close(lines)
	if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
}

// TestStreamEndsWithItsClient: given clients that read, and that do not, when they leave, then the streams end.
func TestStreamEndsWithItsClient(t *testing.T) {
	for name, data := range map[string][]byte{"waits for data": nil, "does not read": bytes.Repeat([]byte("x"), 1<<20)} {
		t.Run(name, func(t *testing.T) {
			e := &endless{data: data, over: make(chan struct{})}
			c, _ := serve(t, &controltest.Daemon{EventsFunc: func(api.EventFilter) server.Stream { return e }})
			s := follow(t, c)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if data == nil {
				<-e.over
			} // otherwise the write fails, and serve waits for the end of the request
		})
	}
}

// TestStreamEndsWithTheDaemon: given a client that waits for data, and one that does not read, when the daemon stops,
// then it does not wait for them, and the first one learns why its stream has ended.
func TestStreamEndsWithTheDaemon(t *testing.T) {
	for name, data := range map[string][]byte{"waits for data": nil, "does not read": bytes.Repeat([]byte("x"), 1<<20)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(testenv.SocketDir(t), "c.sock")
			l, err := server.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			e := &endless{data: data, over: make(chan struct{})}
			d := &controltest.Daemon{EventsFunc: func(api.EventFilter) server.Stream { return e }}
			go func() { served <- (&server.Server{Backend: d}).Serve(ctx, l) }()
			c := client.New(path)
			defer c.Close()
			s := follow(t, c)
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			_, err = io.Copy(io.Discard, s)
			if f := (*api.Fault)(nil); !errors.As(err, &f) || data == nil && f.Cause != "lnetd stops" {
				t.Errorf("the client gets %v", err)
			}
		})
	}
}

// lastWords is a stream that has data once its request is over.
type lastWords struct{ spoken bool }

func (l *lastWords) Next(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	if l.spoken {
		return nil, context.Cause(ctx)
	}
	l.spoken = true
	return []byte("stopping\n"), nil
}

// TestLastData: given a stream that has data when the daemon stops, then its client gets them.
func TestLastData(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := server.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	d := &controltest.Daemon{EventsFunc: func(api.EventFilter) server.Stream { return &lastWords{} }}
	go func() { served <- (&server.Server{Backend: d}).Serve(ctx, l) }()
	c := client.New(path)
	defer c.Close()
	s := follow(t, c)
	stop()
	text, err := io.ReadAll(s)
	if f := (*api.Fault)(nil); string(text) != "stopping\n" || !errors.As(err, &f) || f.Cause != "lnetd stops" {
		t.Errorf("the client gets %q, %v", text, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestManyStreams: given one user's 100 clients, when each starts a stream, then a part of them gets one and the others
// get an error; other requests are answered, also those for events that do not follow; and a place is free when a client
// leaves.
func TestManyStreams(t *testing.T) {
	over := make(chan struct{}, 100)
	c, _ := serve(t, &controltest.Daemon{EventsFunc: func(api.EventFilter) server.Stream { return ended(over) }})
	var open []*client.Stream
	for range 100 {
		s, err := c.Events(t.Context(), api.EventFilter{Follow: true})
		if err != nil {
			wantFault(t, err, api.CodeBusy, syscall.EBUSY, "too many requests at once")
			continue
		}
		open = append(open, s)
	}
	if len(open) < 10 || len(open) > 64 {
		t.Errorf("%d streams are open", len(open))
	}
	if _, err := c.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if s, err := c.Events(t.Context(), api.EventFilter{}); err != nil {
		t.Errorf("a request that ends by itself: %v", err)
	} else {
		open = append(open, s)
	}
	for _, s := range open {
		_ = s.Close()
	}
	for range open {
		<-over
	}
	for { // the places are free soon after
		s, err := c.Events(t.Context(), api.EventFilter{Follow: true})
		if err == nil {
			_ = s.Close()
			return
		}
	}
}

// ended is a stream that waits, and sends a value when its request is over.
type ended chan<- struct{}

func (e ended) Next(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	e <- struct{}{}
	return nil, context.Cause(ctx)
}

// TestMalformedStreamRequests: given a request for events that is not valid, then the client learns what is wrong.
func TestMalformedStreamRequests(t *testing.T) {
	_, path := serve(t, &controltest.Daemon{})
	h := http.Client{Transport: &http.Transport{DialContext: dialer(path)}}
	defer h.CloseIdleConnections()
	for query, text := range map[string]string{
		"kind=nis":                     `"nis" is not a kind of event`,
		"kind=":                        `"" is not a kind of event`,
		"kind=ni,,peer":                `"" is not a kind of event`,
		"kind=ni&kind=peer":            `query parameter "kind" is unknown or occurs twice`,
		"since=yesterday":              `since is not a time in the format of RFC 3339: "yesterday"`,
		"follow=1":                     `follow is neither true nor false: "1"`,
		"kinds=ni":                     `query parameter "kinds" is unknown or occurs twice`,
		"kind=" + "%zz":                `query is invalid`,
		"since=2026-01-02T03:04:05%00": `since is not a time in the format of RFC 3339: "2026-01-02T03:04:05\x00"`,
	} {
		resp, err := h.Get("http://lnetd/v1/events?" + query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		quoted := strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`)
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"text":"`+quoted+`"`) {
			t.Errorf("%s: %s %s %v", query, resp.Status, body, err)
		}
	}
}

// TestChangesAreLogged: given a server with a log, when requests change the node, then each that succeeds is logged with
// the beginning of its body; questions are not.
func TestChangesAreLogged(t *testing.T) {
	var out bytes.Buffer
	s := server.Server{
		Backend: &controltest.Daemon{Refuse: func(operation string) error {
			if strings.HasPrefix(operation, "SetRouting") {
				return syscall.EBUSY
			}
			return nil
		}},
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
	h := s.Handler()
	for _, e := range []example{
		{"POST", "/v1/nets/health", `{"all":true, "value":1}`},
		{"POST", "/v1/routing", `{"enabled":true}`},
		{"GET", "/v1/faults?kind=drop", ""},
		{"POST", "/v1/faults", `{"kind":"drop","source":"*","dest":"*","rate":1` + strings.Repeat(" ", 200) + `}`},
	} {
		ask(t, h, e)
	}
	want := `level=INFO msg="changed by a control request" request="POST /v1/nets/health" body="{\"all\":true, \"value\":1}" uid=-1
level=INFO msg="changed by a control request" request="POST /v1/faults" body="{\"kind\":\"drop\",\"source\":\"*\",\"dest\":\"*\",\"rate\":1" uid=-1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func dialer(path string) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

func ask(t *testing.T, h http.Handler, e example) {
	t.Helper()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), e.method, e.target, strings.NewReader(e.body)))
}
