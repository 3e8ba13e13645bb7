package uplnd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

// attachLibrary attaches a proxy of the library until the end of the test.
func attachLibrary(t *testing.T, s *site, name string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Attach(t.Context(), proxy.Config{Socket: s.socket, Name: name, Net: proxied})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A proxy gets its NID and a new PID before it has an interface. It does not get the PID of nodes, so messages to them
// find no proxy. Messages to its own PID fail until it serves, and then reach its driver. When it ends, another one
// can have the PID.
//
// UP-3, UP-9, MPI-13
func TestPIDsBeforeServing(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	p := attachLibrary(t, s, "first")
	if p.NID() != self {
		t.Errorf("the proxy has the NID %s, want %s", p.NID(), self)
	}
	pid, err := p.AllocatePID(t.Context())
	if err != nil || pid&lnet.PIDUserFlag == 0 {
		t.Fatalf("allocated PID %s: %v", pid, err)
	}
	to := lnet.ProcessID{NID: peer.NID, PID: pid}
	u.put(to, 1, nil)
	u.await(t, "sent 1: "+lnd.StatusRemoteDropped.String())
	u.put(peer, 2, nil)
	u.await(t, "sent 2: "+lnd.StatusRemoteDropped.String())

	second := attachLibrary(t, s, "second")
	if err := second.RegisterPID(t.Context(), pid); !errors.Is(err, protocol.CauseBusy.Err("")) {
		t.Errorf("register the PID of another proxy: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	d := newScripted(nil)
	go func() { served <- p.Serve(ctx, d) }()
	u.await(t, "link up")
	u.put(to, 3, nil)
	u.await(t, "sent 3: ok")
	u.put(peer, 4, nil)
	u.await(t, "sent 4: "+lnd.StatusRemoteDropped.String())
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	u.await(t, "link down")
	if err := second.RegisterPID(t.Context(), pid); err != nil {
		t.Errorf("register the PID of a proxy that has ended: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// When lnetd ends the connection, a proxy that waits for a PID or serves gets the reason, and Close returns it too.
//
// UP-2
func TestLnetdEndsBeforeServing(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	p, other := attachLibrary(t, s, "first"), attachLibrary(t, s, "second")
	if err := u.iface.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var failure *protocol.Failure
	for err := error(nil); !errors.As(err, &failure); _, err = p.AllocatePID(t.Context()) {
		if err != nil {
			t.Fatalf("allocate: %v", err)
		}
	}
	if err := p.Serve(t.Context(), newScripted(nil)); !errors.As(err, &failure) {
		t.Errorf("serve: %v", err)
	}
	if err := other.Close(); err != nil && !errors.As(err, &failure) {
		t.Errorf("close: %v", err)
	}
}
