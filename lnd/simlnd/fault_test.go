package simlnd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

func TestCutAtAByte(t *testing.T) {
	modes := map[string]struct {
		mode CutMode
		end  error
	}{
		"reset": {CutReset, syscall.ECONNRESET},
		"end":   {CutEnd, io.EOF},
	}
	for name, m := range modes {
		for _, link := range []Link{{}, {Latency: time.Millisecond}} {
			t.Run(fmt.Sprint(name, link.Latency), func(t *testing.T) {
				connect(t, Config{Link: link}, func(t *testing.T, p *pair) {
					p.conn.Cut(Forward, 4321, m.mode)
					data := pattern(10_000)
					if _, err := p.caller.TryWrite([][]byte{data}); err != nil {
						t.Fatal(err)
					}
					got, err := readAll(p.accepted)
					if !bytes.Equal(got, data[:4321]) || err != m.end {
						t.Errorf("read %d bytes, %v", len(got), err)
					}
					halfCloses := uint64(0)
					if m.mode == CutEnd {
						halfCloses = 1
					}
					if f := p.f.Faults(); f.Cuts != 1 || f.HalfCloses != halfCloses {
						t.Errorf("%d cuts counted, %d half closes", f.Cuts, f.HalfCloses)
					}
					if m.mode == CutEnd {
						mustWrite(t, p.accepted, []byte("the other way goes on"))
						if n, err := p.caller.Read([][]byte{data}); n != 21 || err != nil {
							t.Errorf("other direction: %d, %v", n, err)
						}
					}
				})
			})
		}
	}
}

// Bytes that are sent after a cut are lost as long as there is a reader. After the reader has closed, the
// sender gets an error, as on any other stream.
func TestCutEndOfAHostThatCrashed(t *testing.T) {
	cut := func(p *pair) { p.conn.Cut(Forward, 0, CutEnd) }
	crash := func(p *pair) { p.b.Crash() }
	orders := map[string][]func(*pair){"CutFirst": {cut, crash}, "CrashFirst": {crash, cut}}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
				for _, f := range order {
					f(p)
				}
				mustWrite(t, p.caller, []byte("who is there?"))
				if n, err := p.caller.Read(bufs("answer")); err != syscall.ECONNRESET {
					t.Errorf("read %d bytes, %v", n, err)
				}
			})
		})
	}
}

func TestCutStall(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		p.conn.Cut(Forward, 3, CutStall)
		mustWrite(t, p.caller, []byte("abcdef"))
		b := make([]byte, 10)
		if n, _ := p.accepted.Read([][]byte{b}); n != 3 {
			t.Errorf("read %d before the stall", n)
		}
		if n := p.caller.Unacked(); n != 3 {
			t.Errorf("unacked %d", n)
		}
		p.conn.Resume(Forward)
		if n, _ := p.accepted.Read([][]byte{b}); string(b[:n]) != "def" {
			t.Errorf("read %q after it", b[:n])
		}
	})
}

func TestCorrupt(t *testing.T) {
	connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
		p.conn.Corrupt(Forward, 5, 0x80) // to come
		mustWrite(t, p.caller, make([]byte, 8))
		p.conn.Corrupt(Forward, 2, 0x01) // in transit
		b := make([]byte, 8)
		if _, err := p.accepted.Read([][]byte{b}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]byte{0, 0, 1, 0, 0, 0x80, 0, 0}, b); diff != "" {
			t.Error(diff)
		}
		if n := p.f.Faults().Corruptions; n != 2 {
			t.Errorf("%d counted", n)
		}
	})
}

func TestPartitionHolds(t *testing.T) {
	for _, d := range []Direction{Both, Forward, Backward} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			connect(t, Config{}, func(t *testing.T, p *pair) {
				p.f.Partition(p.a, p.b, d)
				mustWrite(t, p.caller, []byte("hello"))
				<-time.After(time.Minute)
				if n := p.caller.Unacked(); n != 5 {
					t.Errorf("unacked %d", n)
				}
				p.f.Heal(p.a, p.b, d)
				if n, err := p.accepted.Read([][]byte{make([]byte, 9)}); n != 5 || err != nil {
					t.Errorf("after healing: %d, %v", n, err)
				}
				if n := p.caller.Unacked(); n != 0 {
					t.Errorf("unacked %d after healing", n)
				}
			})
		})
	}
}

func TestStreamsGiveUp(t *testing.T) {
	keepalive := socklnd.StreamOptions{KeepaliveIdle: 30 * time.Second, KeepaliveInterval: 5 * time.Second, KeepaliveCount: 5}
	cases := map[string]struct {
		options socklnd.StreamOptions
		write   bool
		after   time.Duration
	}{
		"unacknowledged data": {write: true, after: 924 * time.Second},
		"keepalive":           {options: keepalive, after: 55 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			connect(t, Config{}, func(t *testing.T, p *pair) {
				if err := p.caller.Configure(c.options); err != nil {
					t.Fatal(err)
				}
				p.f.Partition(p.a, p.b, Both)
				if c.write {
					mustWrite(t, p.caller, []byte("into the void"))
				}
				start := time.Now()
				if _, err := p.caller.Read(bufs("x")); err != syscall.ETIMEDOUT || time.Since(start) != c.after {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				// The other end notices only when it sends.
				p.f.Heal(p.a, p.b, Both)
				mustWrite(t, p.accepted, []byte("hello?"))
				if _, err := p.accepted.Read(bufs("x")); err != syscall.ECONNRESET {
					t.Errorf("other end: %v", err)
				}
			})
		})
	}
}

func TestPartitionHealedInTimeLetsDialsThrough(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		p.f.Partition(p.a, p.b, Both)
		time.AfterFunc(2*time.Second, func() { p.f.Heal(p.a, p.b, Both) })
		start := time.Now()
		if _, err := p.a.Dial(t.Context(), at(addrA, 0), at(addrB, 988)); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v; want the second repetition to pass", err, time.Since(start))
		}
		if n := p.f.Faults().RequestsLost; n != 2 {
			t.Errorf("%d requests lost", n)
		}
	})
}

func TestDeviceDown(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		changes := make(chan bool, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- p.b.Watch(ctx, func() {
				d, err := hostnet.Find(p.b, "", at(addrB, 0).Addr())
				changes <- err == nil && d.Up
			})
		}()
		<-changes // the first check
		eth0 := p.b.Interface("eth0")
		eth0.SetUp(false)
		if <-changes {
			t.Error("still up")
		}
		mustWrite(t, p.caller, []byte("waits"))
		<-time.After(time.Second)
		if p.caller.Unacked() != 5 {
			t.Error("delivered through a device that is down")
		}
		eth0.SetUp(true)
		if !<-changes {
			t.Error("still down")
		}
		if _, err := p.accepted.Read([][]byte{make([]byte, 5)}); err != nil {
			t.Error(err)
		}
		eth0.SetAddrs("10.9.9.9")
		if <-changes {
			t.Error("still has the address")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestHoldMakesARace(t *testing.T) {
	connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
		la, err := p.a.Listen(at(addrA, 988), 1)
		if err != nil {
			t.Fatal(err)
		}
		hold := p.f.Hold(p.a, p.b, Both)
		dialled := make(chan error, 2)
		go func() {
			_, err := p.a.Dial(t.Context(), at(addrA, 0), at(addrB, 988))
			dialled <- err
		}()
		go func() {
			_, err := p.b.Dial(t.Context(), at(addrB, 0), at(addrA, 988))
			dialled <- err
		}()
		synctest.Wait()
		if n := hold.Waiting(); n != 2 {
			t.Errorf("%d held", n)
		}
		start := time.Now()
		hold.Release()
		for range 2 {
			if err := <-dialled; err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d != 2*time.Millisecond {
				t.Errorf("connected after %v", d)
			}
		}
		if _, err := la.Accept(); err != nil {
			t.Error(err)
		}
	})
}

func TestCrash(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		p.b.Crash()
		if _, err := p.accepted.Read(bufs("x")); err != syscall.ECONNABORTED {
			t.Errorf("on the host: %v", err)
		}
		_ = p.accepted.Close()
		if p.caller.Unacked() != 0 {
			t.Error("the peer was told")
		}
		if _, err := p.b.Listen(at(addrB, 988), 1); err != nil {
			t.Errorf("listen anew: %v", err)
		}
		mustWrite(t, p.caller, []byte("anybody there?"))
		if _, err := p.caller.Read(bufs("x")); err != syscall.ECONNRESET {
			t.Errorf("the peer: %v", err)
		}
	})
}

func TestBacklog(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		l, err := p.b.Listen(at(addrB, 1), 2)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.a.Dial(t.Context(), at(addrA, 0), at(addrB, 1)); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(500*time.Millisecond, func() { _, _ = l.Accept() })
		start := time.Now()
		if _, err := p.a.Dial(t.Context(), at(addrA, 0), at(addrB, 1)); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v; want the first repetition to pass", err, time.Since(start))
		}
	})
}

// TestSeedDecides runs the same traffic twice. With the same seed it takes the same time and has the same
// faults, whatever the scheduler does.
func TestSeedDecides(t *testing.T) {
	run := func(seed uint64) (end time.Duration, got int, faults Faults) {
		c := Config{
			Seed: seed, Link: Link{Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.1},
			CutChance: 0.5, CutWithin: 300_000,
		}
		connect(t, c, func(t *testing.T, p *pair) {
			go func() {
				defer func() { _ = p.caller.Close() }()
				data := pattern(1000)
				for range 200 {
					<-time.After(time.Millisecond)
					if _, err := p.caller.TryWrite([][]byte{data}); err != nil {
						return
					}
				}
			}()
			all, _ := readAll(p.accepted)
			end, got, faults = p.f.net.Now(), len(all), p.f.Faults()
		})
		return end, got, faults
	}
	cuts := uint64(0)
	for seed := range uint64(20) {
		end1, got1, faults1 := run(seed)
		end2, got2, faults2 := run(seed)
		if end1 != end2 || got1 != got2 || faults1 != faults2 {
			t.Errorf("seed %d: %v %d %v, then %v %d %v", seed, end1, got1, faults1, end2, got2, faults2)
		}
		cuts += faults1.Cuts
	}
	if cuts == 0 || cuts == 20 {
		t.Errorf("%d of 20 runs were cut; want some", cuts)
	}
}
