package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// TestCaptureRequest: given a filter, then the daemon gets it, and the client gets what the daemon records.
func TestCaptureRequest(t *testing.T) {
	var asked capture.Filter
	c, _ := serve(t, &controltest.Daemon{CaptureFunc: func(_ context.Context, f capture.Filter) (server.Stream, error) {
		asked = f
		blocks := make(chan string, 1)
		blocks <- "a recording"
		close(blocks)
		return controltest.Lines(blocks), nil
	}})
	s, err := c.Capture(t.Context(), api.CaptureFilter{
		NIDs: "10.0.0.1@tcp", Nets: "tcp,o2ib", Portals: "1,63", Types: "put,ack", Payload: "64", Count: "7", Duration: "1m",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got, err := io.ReadAll(s); err != nil || string(got) != "a recording" {
		t.Errorf("%q, %v", got, err)
	}
	if len(asked.NIDs) != 1 || len(asked.Nets) != 2 || asked.Portals != 1<<1|1<<63 || asked.Types != 1<<lnet.MsgPut|1<<lnet.MsgAck ||
		asked.Payload != 64 || asked.Count != 7 || asked.Duration != time.Minute {
		t.Errorf("the daemon gets %+v", asked)
	}
}

// waiting is a stream without data.
type waiting struct{}

func (waiting) Next(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestRefusedCaptures: given an invalid filter, or too many captures, then the client learns what is wrong.
func TestRefusedCaptures(t *testing.T) {
	d := &controltest.Daemon{CaptureFunc: func(context.Context, capture.Filter) (server.Stream, error) {
		return waiting{}, nil
	}}
	c, _ := serve(t, d)
	for range 8 { // as the user of lnetd
		s, err := c.Capture(t.Context(), api.CaptureFilter{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
	}
	_, err := c.Capture(t.Context(), api.CaptureFilter{})
	wantFault(t, err, api.CodeBusy, syscall.EBUSY, "too many captures are running")
	for filter, want := range map[api.CaptureFilter]string{
		{Nets: "tpc"}: "did you mean 'tcp'?", {NIDs: "10.0.0.1@o2id"}: "did you mean 'o2ib'?", {Types: "get,putt"}: "did you mean 'put'?",
		{Types: "hello"}: "see lnetdctl help capture", {Portals: "putt"}: "see lnetdctl help capture",
	} {
		_, err := c.Capture(t.Context(), filter)
		if f := (*api.Fault)(nil); !errors.As(err, &f) || f.Code != api.CodeParameterInvalid || f.Remedy != want {
			t.Errorf("%+v: %v, want %q", filter, err, want)
		}
	}
	_, err = c.Capture(t.Context(), api.CaptureFilter{Portals: "64"})
	wantFault(t, err, api.CodeParameterInvalid, syscall.EINVAL, `the filter is invalid: portal: "64" is not a number from 0 to 63`)
	d.Down = true
	_, err = c.Capture(t.Context(), api.CaptureFilter{})
	wantFault(t, err, api.CodeNetworkDown, syscall.ENETDOWN, "Network is down")
}

// TestPayloadIsPrivate: given a client that is neither root nor the daemon's user, then it may capture headers, but no
// payload.
func TestPayloadIsPrivate(t *testing.T) {
	h := (&server.Server{Backend: &controltest.Daemon{}}).Handler()
	for target, want := range map[string]int{
		"/v1/capture": http.StatusOK, "/v1/capture?payload=0": http.StatusOK, "/v1/capture?payload=1": http.StatusForbidden,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)) // without credentials
		if w.Code != want || want == http.StatusForbidden && !strings.Contains(w.Body.String(), "only root and the user of lnetd") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	c, _ := serve(t, &controltest.Daemon{})
	s, err := c.Capture(t.Context(), api.CaptureFilter{Payload: "1"})
	if err != nil {
		t.Fatalf("as user %d: %v", os.Geteuid(), err)
	}
	_ = s.Close()
}
