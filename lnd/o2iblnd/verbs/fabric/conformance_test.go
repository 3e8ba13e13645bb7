package fabric_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/verbstest"
)

func TestConformance(t *testing.T) {
	for name, c := range map[string]fabric.Config{
		"Perfect": {},
		"Slow":    {Link: fabric.Link{Latency: 10 * time.Microsecond, Jitter: 90 * time.Microsecond}},
		"Lossy":   {Seed: 7, Link: fabric.Link{Latency: time.Microsecond, Loss: 0.02}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verbstest.Run(t, verbstest.Harness{
				New:      func(t *testing.T) *verbstest.World { return world(t, c) },
				Bubble:   synctest.Test,
				Patience: 10 * time.Minute,
			})
		})
	}
}

// Addresses of a world's two hosts.
const addrA, addrB = "10.0.0.1", "10.0.0.2"

func world(t *testing.T, c fabric.Config) *verbstest.World {
	f := fabric.New(c)
	a, b := f.Host("a", addrA), f.Host("b", addrB)
	const plain = "10.0.0.3"
	b.AddDevice(plain).Remove()
	addr := netip.MustParseAddr
	w := &verbstest.World{
		A: a.Open(), B: b.Open(), AddrA: addr(addrA), AddrB: addr(addrB), Port: 987,
		Foreign: addr("10.0.0.77"), Plain: addr(plain), Nobody: addr("10.0.0.99"),
	}
	w.Victim = func(t *testing.T, at netip.AddrPort, s verbstest.Service) func() {
		p := b.Open()
		ready, served := make(chan struct{}), make(chan error, 1)
		go func() { served <- verbstest.Serve(p, at, s, func() { close(ready) }) }()
		<-ready
		return func() {
			time.Sleep(time.Millisecond) // until the victim knows that its connections are established
			p.Kill()
			if err := <-served; err != nil {
				t.Error("the victim:", err)
			}
		}
	}
	w.Close = func(t *testing.T) {
		defer f.Close()
		for _, p := range []verbs.Provider{w.A, w.B} {
			if err := p.Close(); err != nil && !t.Failed() {
				t.Error(err)
			}
		}
	}
	return w
}

func BenchmarkFabric(b *testing.B) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	verbstest.Bench(b, &verbstest.World{
		A: f.Host("a", addrA).Open(), B: f.Host("b", addrB).Open(), AddrA: netip.MustParseAddr(addrA), AddrB: netip.MustParseAddr(addrB), Port: 987,
	}, 0)
}
