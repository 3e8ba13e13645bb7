package netns

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping"
	"github.com/lnetd/lnetd/transport"
)

// Given a host with lnetd in each of two networks and a router between them, when programs with transfer
// machines on one host exchange messages and bulk with a program on the other, then all of it arrives, as
// it was. The programs are in no network of lnetd's: its socket is all that they need.
//
// transport 10.1 steps
// r.M0.net.xprt.lnet.user
func TestHostedPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	gateway := w.host(t, 0, 1)
	gateway.startWith(t, &configuration{router: true})
	a, b := w.host(t, 0), w.host(t, 1)
	a.startWith(t, &configuration{routes: []route{{to: 1, on: 0, gateway: gateway, hops: 1}}})
	b.startWith(t, &configuration{routes: []route{{to: 0, on: 1, gateway: gateway, hops: 1}}}).wantPing(t, a)

	config := tmping.DefaultConfig()
	config.Clients, config.Loops, config.BulkSize = 4, 10, 1<<20
	config.MessageTime, config.BulkTime = time.Minute, time.Minute
	s := tmping.Session{
		Config:  config,
		Client:  tmping.Side{NID: a.nid(), Portal: tmping.Portal, ID: "*"},
		Server:  tmping.Side{NID: b.nid(), Portal: tmping.Portal, ID: "12"},
		OnError: func(err error) { t.Error(err) },
	}
	reports, err := s.Both(t.Context(), b.programs(t), a.programs(t))
	if err != nil {
		t.Fatal(err)
	}
	total := reports[len(reports)-1]
	for _, q := range []transport.QueueType{transport.PassiveBulkRecv, transport.PassiveBulkSend} {
		if r := total.Queues[q]; r.Successes != 40 || r.Bytes != 40<<20 || r.Failures != 0 {
			t.Errorf("%s: %+v, want 40 of 1 MiB", r.Name, r)
		}
	}
	if total.Errors+total.Retries+reports[0].Errors != 0 {
		t.Errorf("%d errors, %d retries, %d errors of the server", total.Errors, total.Retries, reports[0].Errors)
	}
}

// programs opens a program's domain on the host's lnetd. It is closed at the end of the test.
func (h *host) programs(t *testing.T) *tmhost.Host {
	t.Helper()
	p, err := tmhost.Open(t.Context(), tmhost.Config{
		Type: "lnetd", Through: filepath.Join(filepath.Dir(h.socket()), "lnetd.sock"), NID: h.nid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}
