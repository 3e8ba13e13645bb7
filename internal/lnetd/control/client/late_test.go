package client

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
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
	ctx := &overContext{Context: t.Context(), over: make(chan struct{})}
	c, path := clientOf(t, func(_ http.ResponseWriter, r *http.Request) {
		close(ctx.over)
		<-r.Context().Done()
	})
	f := wantFault(t, c.SetLNet(ctx, api.LNet{Configured: true}), api.CodeBusy)
	if f.Errno != -110 || !strings.Contains(f.Cause, path) {
		t.Errorf("%+v", f)
	}
}
