package o2iblnd_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// lndTimeout makes an interface ask its node for the timeout, so that a station can count ticks.
func lndTimeout(c *o2iblnd.Config) { c.Timeout = 0 }

// TestIdleInterfaceSleeps: an interface without messages in flight does nothing until keepalives
// are due. Then it sends one on each connection.
//
// o2iblnd 9.5 (2), 13.1
func TestIdleInterfaceSleeps(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		stations := []*station{newStation(t, f, 0, lndTimeout), newStation(t, f, 1, lndTimeout), newStation(t, f, 2, lndTimeout)}
		a, b := stations[0], stations[1]
		a.works(b)
		a.works(stations[2])
		time.Sleep(10 * time.Second)
		looks, heard := a.looks.Load(), counter(b, "received_messages_total")
		time.Sleep(80 * time.Second)
		synctest.Wait()
		if n := a.looks.Load() - looks; n != 0 {
			t.Errorf("an idle interface looks at its connections %d times in 80 s", n)
		}
		if n := counter(b, "received_messages_total") - heard; n != 0 {
			t.Errorf("%d messages in 80 s without traffic", n)
		}
		time.Sleep(1000 * time.Second)
		synctest.Wait()
		if n := counter(b, "received_messages_total") - heard; n != 10 {
			t.Errorf("%d keepalives in 1080 s, one is due every 100 s", n)
		}
		// For each keepalive there are a few ticks until it has completed.
		if n := a.looks.Load() - looks; n > 10*2*2*4 {
			t.Errorf("an idle interface looks at its connections %d times for 20 keepalives", n)
		}
		for _, s := range stations {
			s.close()
		}
	})
}

// TestRestEnds: an interface that was idle detects a stall and an overdue message as soon as any
// other one.
//
// o2iblnd 13.1, 13.2 (2)
func TestRestEnds(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		p.acceptAll()
		a.send(p.nid, 1, 100)
		time.Sleep(30 * time.Second)
		if _, errs := a.outcome(); len(errs) > 0 {
			t.Fatal(errs)
		}
		begun := time.Now()
		a.send(p.nid, 1, 50_000) // a PUT_REQ, which gets no answer
		time.Sleep(9 * time.Second)
		if _, errs := a.outcome(); len(errs) > 0 {
			t.Errorf("%v after %v", errs, time.Since(begun))
		}
		time.Sleep(2 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 {
			t.Errorf("after %v with a timeout of 10 s: %v", time.Since(begun), errs)
		}

		a.send(p.nid, 1, 100)
		time.Sleep(30 * time.Second)
		a.outcome()
		f.SetLink(a.host, p.host, fabric.Both, fabric.Link{Loss: 1})
		a.send(p.nid, 1, 100)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if n := counter(a, "stalls_total"); n != 1 {
			t.Errorf("%d stalls are noticed 1.5 s after a message got lost", n)
		}
		time.Sleep(30 * time.Second)
		a.close()
	})
}

// TestMessagesInAPauseCauseNoTicks: messages that fail during the pause after a failed attempt do
// not make the interface check its connections.
func TestMessagesInAPauseCauseNoTicks(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		edit := func(c *o2iblnd.Config) { c.Timeout, c.RedialPause = 0, 5*time.Second }
		a, b := newStation(t, f, 0, edit), newStation(t, f, 1, edit)
		a.works(b)
		f.Host("host2", address(2))
		a.send(nidOf(2), 1, 100)
		a.outcome()
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		looks := a.looks.Load()
		for range 500 {
			a.send(nidOf(2), 1, 100)
			a.outcome()
		}
		if n := a.looks.Load() - looks; n > 50 {
			t.Errorf("%d looks at connections while no time passed", n)
		}
		a.close()
		b.close()
	})
}

// TestRecoveryIsLogged: the first connection after one on which the peer did not answer is logged, once. A first
// connection without a failure is not.
func TestRecoveryIsLogged(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		var out bytes.Buffer
		a := newStation(t, f, 0, func(c *o2iblnd.Config) { c.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
		b, healthy := newStation(t, f, 1, nil), newStation(t, f, 2, nil)
		a.works(healthy)
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{Loss: 1})
		a.send(b.i.NID(), 1, 100)
		time.Sleep(30 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 {
			t.Fatalf("errors %v, want one", errs)
		}
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{})
		time.Sleep(time.Minute)
		a.works(b)
		synctest.Wait()
		log := out.String()
		failed, again := strings.Index(log, `msg="peer does not answer"`), strings.Index(log, `msg="peer is connected again"`)
		if failed < 0 || again < failed || strings.Count(log, "again") != 1 {
			t.Errorf("log:\n%s", log)
		}
		a.close()
		b.close()
		healthy.close()
	})
}
