package client

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// overContext is a context whose deadline passes when over is closed.
type overContext struct {
	context.Context
	over chan struct{}
}

func (c *overContext) Done() <-chan struct{} { return c.over }

func (c *overContext) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestAnswerIsLate checks that an lnetd that has accepted a request and does not answer is reported
// as busy, not as unreachable: it may still carry out the request.
func TestAnswerIsLate(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := &overContext{Context: t.Context(), over: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(ctx.over)
		<-r.Context().Done()
	})}
	served := make(chan struct{})
	go func() { _ = s.Serve(l); close(served) }()
	defer func() { _ = s.Close(); <-served }()
	c := New(path)
	defer c.Close()
	f := wantFault(t, c.SetLNet(ctx, api.LNet{Configured: true}), api.CodeBusy)
	if f.Errno != -110 || !strings.Contains(f.Cause, path) {
		t.Errorf("%+v", f)
	}
}
