package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// LNet cannot be unconfigured while a hosted client has transfer machines, or a selftest session
// exists. It can when they are gone.
//
// lnetctl 4.1
func TestLNetIsBusy(t *testing.T) {
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "")
	c := r.ready(t)
	ctx := t.Context()
	busy := func(cause string) {
		t.Helper()
		var f *api.Fault
		err := c.SetLNet(ctx, api.LNet{})
		if !errors.As(err, &f) || f.Code != api.CodeLNetBusy || f.Errno != -16 || !strings.Contains(f.Cause, cause) {
			t.Errorf("unconfigured though %s: %v", cause, err)
		}
		if nets, err := c.Nets(ctx, ""); err != nil || len(nets) != 2 {
			t.Errorf("nets %+v, %v", nets, err)
		}
	}
	d, err := connect(t, besideControl(r.socket, remote.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := d.NewTM(func(*transport.TMEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tm.Start("192.0.2.5@tcp:12345:31:*"), tm.Await(ctx, transport.StateStarted)); err != nil {
		t.Fatal(err)
	}
	busy("transfer machines")
	if err := errors.Join(tm.Abort(), tm.Await(ctx, transport.StateStopped), tm.Close()); err != nil {
		t.Fatal(err)
	}

	if err := c.LstEnable(ctx, api.LstBounds{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.LstNewSession(ctx, api.LstNewSession{Key: 1, Name: "s"}); err != nil {
		t.Fatal(err)
	}
	busy("session")
	if err := c.LstEndSession(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.SetLNet(ctx, api.LNet{}); err != nil {
		t.Errorf("nobody uses it: %v", err)
	}
	r.stop(t)
}
