package nettest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/transport"
)

// host opens a host in memory until the test ends.
func host(t *testing.T) *tmhost.Host {
	t.Helper()
	h, err := tmhost.Open(t.Context(), tmhost.Config{Type: "mem"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// local returns the configuration of a console with nodes in memory, which exist until the test ends.
func local(t *testing.T, servers, clients int, test message.Test) *ConsoleConfig {
	t.Helper()
	c := &ConsoleConfig{Test: test}
	h := host(t)
	l, err := StartLocal(t.Context(), servers, clients, h, h, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.Servers.Delivery, c.Clients.Delivery = "sync", "sync"
	c.Servers.Concurrency, c.Clients.Concurrency = 16, 8
	c.Servers.Buffers, c.Clients.Buffers = 32, 16
	return c
}

func pingTest() message.Test {
	return message.Test{Kind: message.Ping, Count: 100, Size: 4096, Timeout: 3 * time.Second, Messages: 1}
}

func bulkTest() message.Test {
	return message.Test{
		Kind: message.Bulk, Count: 64, Size: 64 << 10, BufferSize: 16 << 10, Descriptors: 8,
		Timeout: 3 * time.Second, Messages: 1,
	}
}

// counted returns a counter without failures.
func counted(n uint64) figures.Counter { return figures.Counter{Total: n} }

// Given nodes of both roles, with each way of delivery, one or several messages per buffer, and a number
// of messages, when a ping test has run, then each client has received that number of answers from each
// server, and round trips were measured.
//
// transport-tests Q (129)
// transport 10.3 ping
// R.m0.net.self-test.test.ping
// R.m0.net.self-test.statistics
// R.m0.net.self-test.test.duration.simple
func TestPing(t *testing.T) {
	for _, delivery := range []string{"sync", "async", "poll"} {
		for _, messages := range []int{1, 7} {
			t.Run(fmt.Sprint(delivery, " ", messages), func(t *testing.T) {
				test := pingTest()
				test.Messages = messages
				c := local(t, 2, 3, test)
				c.Servers.Delivery, c.Clients.Delivery = delivery, delivery
				r, err := Run(t.Context(), *c)
				if err != nil {
					t.Fatal(err)
				}
				const n = 2 * 3 * 100
				want := figures.Counters{Sent: counted(n), Received: counted(n)}
				if r.Clients.Counters != want || r.Servers.Counters != want {
					t.Errorf("clients %+v\nservers %+v\nwant    %+v", r.Clients.Counters, r.Servers.Counters, want)
				}
				if r.Clients.RTT.Count != n || r.Clients.RTT.Min == 0 || r.Clients.Latency.Count() != n {
					t.Errorf("%d round trips: %+v", n, r.Clients.RTT)
				}
				if r.Clients.BytesIn != n*4096 || r.Servers.BytesOut != n*4096 || r.Clients.SentRate.Count == 0 {
					t.Errorf("clients %+v", r.Clients)
				}
			})
		}
	}
}

// Given a time limit and no number, when a ping test has run, then it has ended at that time, the console
// has reported progress each second, and both sides have counted the same.
//
// transport-tests Q (129)
// R.m0.net.self-test.statistics.live
// R.m0.net.self-test.test.duration.simple
func TestTime(t *testing.T) {
	test := pingTest()
	test.Count, test.Time = 0, 1200*time.Millisecond
	c := local(t, 1, 1, test)
	shown := 0
	c.Progress = func(elapsed time.Duration, f *figures.Figures) {
		shown++
		if line := ProgressLine(elapsed, f); !strings.Contains(line, "/s total out: ") || f.Sent.Total == 0 {
			t.Errorf("%q", line)
		}
	}
	r, err := Run(t.Context(), *c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failures() > 0 || r.Clients.Sent != r.Servers.Received || r.Clients.RTT.Mean() <= 0 || !r.Clients.Finished {
		t.Errorf("clients %+v\nservers %+v", r.Clients, r.Servers)
	}
	if shown < 2 || r.Finish.Sub(r.Start) < test.Time {
		t.Errorf("shown %d times in %s", shown, r.Finish.Sub(r.Start))
	}
}

// Given two clients and two servers, when each client has made 64 transfers with each server, then both
// sides have counted 256, and the returned bulk is what was sent.
//
// transport-tests Q (131)
// transport 10.3 bulk
// R.m0.net.self-test.test.bulk
func TestBulk(t *testing.T) {
	for _, delivery := range []string{"sync", "async", "poll"} {
		t.Run(delivery, func(t *testing.T) {
			test := bulkTest()
			test.Verify = true
			c := local(t, 2, 2, test)
			c.Servers.Delivery, c.Clients.Delivery = delivery, delivery
			r, err := Run(t.Context(), *c)
			if err != nil {
				t.Fatal(err)
			}
			const n = 2 * 2 * 64
			for name, f := range map[string]*figures.Figures{"clients": &r.Clients, "servers": &r.Servers} {
				if f.Transfers != counted(n) || f.BulkSent != counted(n) || f.BulkReceived != counted(n) ||
					f.BytesOut != n*64<<10 || f.BytesIn != n*64<<10 || f.Failures() > 0 {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if got := r.Servers.Received.Total; got != r.Clients.Sent.Total || got > n || got < n/4 {
				t.Errorf("%d messages with descriptors came, %d were sent", got, r.Clients.Sent.Total)
			}
		})
	}
}

// Given a server with fewer buffers than clients use at once, when a bulk test has run, then the
// transfers without a buffer have failed and were repeated.
//
// transport 10.3 bulk
func TestMissingBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := bulkTest()
		test.Count, test.Timeout = 8, time.Second
		c := local(t, 1, 1, test)
		c.Servers.Concurrency, c.Clients.Concurrency = 1, 8
		r, err := Run(t.Context(), *c)
		if err != nil {
			t.Fatal(err)
		}
		// One buffer, and one transfer that waits for it: 6 of 8 concurrent transfers are too many.
		if r.Servers.Transfers.Failed == 0 || r.Clients.Transfers.Failed != r.Servers.Transfers.Failed {
			t.Errorf("clients %+v\nservers %+v", r.Clients.Transfers, r.Servers.Transfers)
		}
		if ok := r.Clients.Transfers.Total - r.Clients.Transfers.Failed; ok == 0 || ok != r.Servers.Transfers.Total-r.Servers.Transfers.Failed {
			t.Errorf("clients %+v\nservers %+v", r.Clients.Transfers, r.Servers.Transfers)
		}
	})
}

// Given a server that is gone, when clients have sent their messages with all repetitions, then they have
// finished, and unanswered messages have failed.
//
// transport 10.3 ping
func TestServerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := pingTest()
		test.Count, test.Timeout = 3, time.Second
		c := local(t, 1, 1, test)
		c.Clients.Concurrency = 1
		servers, clients, err := c.tests()
		if err != nil {
			t.Fatal(err)
		}
		_ = servers
		h := host(t)
		lost, err := newTestRun(t.Context(), h.Domain, clients[0])
		if err != nil {
			t.Fatal(err)
		}
		lost.start()
		for !lost.report().Finished {
			time.Sleep(time.Second)
		}
		if f := lost.report(); f.Sent != counted(failuresMax) || f.Received != (figures.Counter{Total: failuresMax, Failed: failuresMax}) {
			t.Errorf("%+v", f.Counters)
		}
		if err := lost.stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Given invalid configurations, when they are checked and run, then they are refused before anything is
// sent.
//
// transport-tests Q (132)
func TestWrongConfiguration(t *testing.T) {
	good := ConsoleConfig{
		Test:    bulkTest(),
		Servers: Group{Commands: []string{"0@lo:12345:42:1"}, Data: []string{"0@lo:12345:42:2"}, Concurrency: 1, Buffers: 1, Delivery: "sync"},
		Clients: Group{Commands: []string{"0@lo:12345:42:3"}, Data: []string{"0@lo:12345:42:4"}, Concurrency: 1, Buffers: 1, Delivery: "sync"},
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(c *ConsoleConfig)
		want   syscall.Errno
	}{
		{"lists of different length", func(c *ConsoleConfig) { c.Servers.Data = append(c.Servers.Data, "0@lo:12345:42:5") }, syscall.EINVAL},
		{"no clients", func(c *ConsoleConfig) { c.Clients.Commands, c.Clients.Data = nil, nil }, syscall.EINVAL},
		{"no end point", func(c *ConsoleConfig) { c.Clients.Data = []string{"0@lo:12345:42"} }, syscall.EINVAL},
		{"no number", func(c *ConsoleConfig) { c.Clients.Data = []string{"0@lo:12345:42:*"} }, syscall.EINVAL},
		{"zero size", func(c *ConsoleConfig) { c.Test.Size = 0 }, syscall.EINVAL},
		{"zero count", func(c *ConsoleConfig) { c.Test.Count = 0 }, syscall.EINVAL},
		{"zero concurrency", func(c *ConsoleConfig) { c.Servers.Concurrency = 0 }, syscall.EINVAL},
		{"no buffers of servers", func(c *ConsoleConfig) { c.Servers.Buffers = 0 }, syscall.EINVAL},
		{"no buffers of clients", func(c *ConsoleConfig) { c.Clients.Buffers = 0 }, syscall.EINVAL},
		{"no size of buffers", func(c *ConsoleConfig) { c.Test.BufferSize = 0 }, syscall.EINVAL},
		{"no descriptors", func(c *ConsoleConfig) { c.Test.Descriptors = 0 }, syscall.EINVAL},
		{"unknown type", func(c *ConsoleConfig) { c.Test.Kind = "pong" }, syscall.ENODATA},
		{"small ping", func(c *ConsoleConfig) { c.Test.Kind, c.Test.Size = message.Ping, 31 }, syscall.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := good
			c.change(&bad)
			if err := bad.Check(); !errors.Is(err, c.want) {
				t.Error(err)
			}
			if _, err := Run(t.Context(), bad); !errors.Is(err, c.want) { // without a Domain
				t.Error(err)
			}
		})
	}
}

// Given returned bulk that is different or shorter, then the transfer is bad. Without verification, it is
// bad only if it is shorter.
//
// R.m0.net.self-test.test.bulk.integrity.no-check
func TestVerify(t *testing.T) {
	h := host(t)
	buffer := func() *transport.Buffer {
		b, err := h.Domain.Buffer(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Domain.Free(b); err != nil {
				t.Error(err)
			}
		})
		return b
	}
	c := &bulkClient{clientWork: clientWork{testRun: &testRun{test: message.Test{Size: 1000, Verify: true}}}}
	s := &bulkSlot{send: buffer(), recv: buffer(), length: 1000}
	fill(s.send.Bytes(), 7)
	copy(s.recv.Bytes(), s.send.Bytes())
	if c.contentWrong(s) {
		t.Error("it is what was sent")
	}
	s.length--
	if !c.contentWrong(s) {
		t.Error("it is shorter")
	}
	s.length++
	for _, k := range []int{0, 500, 999} {
		s.recv.Bytes()[k] ^= 1
		if !c.contentWrong(s) {
			t.Errorf("byte %d is another", k)
		}
		s.recv.Bytes()[k] ^= 1
	}
	fill(s.send.Bytes(), 8)
	if !c.contentWrong(s) {
		t.Error("it is what was sent before")
	}
	c.test.Verify = false
	if c.contentWrong(s) {
		t.Error("nobody looks")
	}
}
