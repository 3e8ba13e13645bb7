package selftest

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Both nodes run in this process, so time and allocations are those of client and server together.
const benchPort = 7987

var benchAddresses atomic.Uint32

// overTCP returns a node with an agent on its own loopback address.
func overTCP(b testing.TB) *player {
	b.Helper()
	k := benchAddresses.Add(1)
	address := netip.AddrFrom4([4]byte{127, byte(192 + os.Getpid()%31), byte(k >> 8), byte(k)})
	c := socklnd.UnprivilegedConfig(benchPort)
	c.ConnsPerPeer = 1
	c.Logger = slog.New(slog.DiscardHandler)
	d, err := socklnd.New(c)
	if err != nil {
		b.Fatal(err)
	}
	p := &player{t: b, driver: d}
	p.start([]string{address.String()})
	return p.agent(Config{Logger: slog.New(slog.DiscardHandler)})
}

// benchPair creates two nodes of a kind.
func benchPair(b *testing.B, kind string) (client, server *player) {
	b.Helper()
	switch kind {
	case "tcp":
		return overTCP(b), overTCP(b)
	case "0@lo":
		s := &stage{t: b, Fabric: simlnd.New(simlnd.Config{Seed: 1})}
		b.Cleanup(s.Close)
		p := s.player("one", "10.0.0.1").agent(Config{Logger: slog.New(slog.DiscardHandler)})
		self := *p
		self.id.NID = lnet.LoopbackNID
		p.t.Cleanup(func() { self.closed = true })
		return p, &self
	}
	s := &stage{t: b, Fabric: simlnd.New(simlnd.Config{Seed: 1})}
	b.Cleanup(s.Close)
	c := Config{Logger: slog.New(slog.DiscardHandler)}
	return s.player("client", "10.0.0.1").agent(c), s.player("server", "10.0.0.2").agent(c)
}

// BenchmarkTest makes b.N RPCs in a batch, divided among its units.
func BenchmarkTest(b *testing.B) {
	for _, kind := range []string{"simlnd", "tcp", "0@lo"} {
		for _, test := range []struct {
			name   string
			change func(q *message.TestRequest)
			bytes  int64
		}{
			{"ping", func(*message.TestRequest) {}, 0},
			{"read 1M", func(q *message.TestRequest) { brw(q, message.BRWRead, 1<<20, message.CheckNone) }, 1 << 20},
			{"write 1M", func(q *message.TestRequest) { brw(q, message.BRWWrite, 1<<20, message.CheckNone) }, 1 << 20},
			{"read 1M full", func(q *message.TestRequest) { brw(q, message.BRWRead, 1<<20, message.CheckFull) }, 1 << 20},
			{"write 1M full", func(q *message.TestRequest) { brw(q, message.BRWWrite, 1<<20, message.CheckFull) }, 1 << 20},
			{"read 4k simple", func(q *message.TestRequest) { brw(q, message.BRWRead, 4096, message.CheckSimple) }, 4096},
			{"write 4k simple", func(q *message.TestRequest) { brw(q, message.BRWWrite, 4096, message.CheckSimple) }, 4096},
		} {
			for _, units := range []uint32{1, 8} {
				if (kind == "0@lo" || test.bytes > 4096) && units == 1 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/%d units", kind, test.name, units), func(b *testing.B) {
					benchmarkTest(b, kind, test.change, test.bytes, units)
				})
			}
		}
	}
}

func benchmarkTest(b *testing.B, kind string, change func(q *message.TestRequest), nbytes int64, units uint32) {
	client, server := benchPair(b, kind)
	con := client.console(1)
	warm, q := con.test(1), con.test(2)
	for _, q := range []*message.TestRequest{warm, q} {
		change(q)
		q.Concurrency = units
	}
	warm.Loop = 100
	q.Loop = uint32(max(b.N/int(units), 1))
	con.prepare(client, server, 1, warm)
	for _, status := range []message.Status{con.add(server, q), con.add(client, q, server)} {
		if status != message.OK {
			b.Fatal(status)
		}
	}
	b.SetBytes(nbytes)
	b.ReportAllocs()
	con.run(client, 1)
	finish(b, client)
	b.ResetTimer()
	began := processorTime(b)
	con.run(client, 2)
	finish(b, client)
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/1e3/float64(q.Loop*units), "cpu-µs/RPC")
	b.ReportMetric(float64(q.Loop*units)/b.Elapsed().Seconds(), "RPC/s")
	index := 1
	if kind == "0@lo" { // the server's test comes first
		index = 2
	}
	h, _ := client.Latency(2, index)
	b.ReportMetric(float64(h.Quantile(0.5))/1e3, "p50-µs")
	b.ReportMetric(float64(h.Quantile(0.99))/1e3, "p99-µs")
	if r := con.stat(client); r.Framework.BRWErrors+r.Framework.PingErrors != 0 {
		b.Errorf("%+v", r.Framework)
	}
}

// processorTime returns the CPU time of the process. On a busy machine it is more meaningful than the
// elapsed time.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// finish waits until no batch is running.
func finish(b *testing.B, p *player) {
	b.Helper()
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	for s.holds.Load() > 1 {
		time.Sleep(50 * time.Microsecond)
	}
}
