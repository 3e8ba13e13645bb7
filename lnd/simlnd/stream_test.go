package simlnd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// pair is the two ends of a stream between two hosts.
type pair struct {
	f                *Fabric
	a, b             *Host
	conn             *Conn
	caller, accepted socklnd.Stream
}

const (
	addrA = "10.0.0.1"
	addrB = "10.0.0.2"
)

func at(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

// connect runs test with a new stream in a bubble.
func connect(t *testing.T, c Config, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := New(c)
		defer f.Close()
		p := &pair{f: f, a: f.Host("a", addrA), b: f.Host("b", addrB)}
		l, err := p.b.Listen(at(addrB, 988), 8)
		if err != nil {
			t.Fatal(err)
		}
		if p.caller, err = p.a.Dial(t.Context(), at(addrA, 1023), at(addrB, 988)); err != nil {
			t.Fatal(err)
		}
		if p.accepted, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		p.conn = f.Conns()[0]
		test(t, p)
	})
}

func bufs(s string) [][]byte { return [][]byte{[]byte(s)} }

func mustWrite(t *testing.T, s socklnd.Stream, data []byte) {
	t.Helper()
	for len(data) > 0 {
		n, err := s.TryWrite([][]byte{data})
		if err != nil {
			t.Errorf("write: %v", err)
			return
		}
		if n == 0 {
			if err := s.AwaitWritable(); err != nil {
				t.Errorf("await writable: %v", err)
				return
			}
		}
		data = data[n:]
	}
}

func readAll(s socklnd.Stream) ([]byte, error) {
	var all []byte
	buf := make([]byte, 10_000)
	for {
		n, err := s.Read([][]byte{buf[:3], buf[3:]})
		all = append(all, buf[:n]...)
		if err != nil {
			return all, err
		}
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestBytesArriveInOrder(t *testing.T) {
	links := map[string]Link{
		"perfect":   {},
		"latency":   {Latency: time.Millisecond},
		"jitter":    {Latency: time.Millisecond, Jitter: 5 * time.Millisecond},
		"bandwidth": {Latency: time.Millisecond, Bandwidth: 10 << 20},
		"loss":      {Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.2},
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			connect(t, Config{Seed: 1, Link: link}, func(t *testing.T, p *pair) {
				want := pattern(1 << 20)
				go func() {
					mustWrite(t, p.caller, want)
					_ = p.caller.Close()
				}()
				got, err := readAll(p.accepted)
				if err != io.EOF || !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, %v; want %d bytes, EOF", len(got), err, len(want))
				}
			})
		})
	}
}

func TestLinkTakesItsTime(t *testing.T) {
	connect(t, Config{Link: Link{Latency: 3 * time.Millisecond, Bandwidth: 1 << 20}}, func(t *testing.T, p *pair) {
		if d := p.f.net.Now(); d != 6*time.Millisecond {
			t.Errorf("connected after %v, want one round trip", d)
		}
		start := p.f.net.Now()
		mustWrite(t, p.caller, make([]byte, 1<<10))
		if n := p.caller.Unacked(); n != 1<<10 {
			t.Errorf("unacked %d, want all", n)
		}
		if _, err := p.accepted.Read(bufs("1024")); err != nil {
			t.Fatal(err)
		}
		want := 3*time.Millisecond + time.Second/1024
		if d := p.f.net.Now() - start; d.Round(time.Microsecond) != want.Round(time.Microsecond) {
			t.Errorf("arrived after %v, want %v", d, want)
		}
		if n := p.caller.Unacked(); n != 0 {
			t.Errorf("unacked %d after delivery", n)
		}
	})
}

func TestWindowBoundsTheSender(t *testing.T) {
	connect(t, Config{SendBuffer: 1000, ReceiveBuffer: 500}, func(t *testing.T, p *pair) {
		n, err := p.caller.TryWrite([][]byte{make([]byte, 700), make([]byte, 700)})
		if n != 1000 || err != nil {
			t.Errorf("first write: %d, %v; want the send buffer", n, err)
		}
		if n, _ = p.caller.TryWrite(bufs(string(make([]byte, 700)))); n != 500 {
			t.Errorf("second write: %d, want what the receive buffer took", n)
		}
		if n, err = p.caller.TryWrite(bufs("x")); n != 0 || err != nil {
			t.Errorf("third write: %d, %v; want 0 and no error", n, err)
		}
		awake := make(chan error, 1)
		go func() { awake <- p.caller.AwaitWritable() }()
		synctest.Wait()
		select {
		case <-awake:
			t.Error("writable although nothing was read")
		default:
		}
		if n, _ = p.accepted.Read([][]byte{make([]byte, 10_000)}); n != 500 {
			t.Errorf("read %d, want what had been delivered", n)
		}
		if err := <-awake; err != nil {
			t.Error(err)
		}
	})
}

func TestEnds(t *testing.T) {
	t.Run("close shows the end after the data", func(t *testing.T) {
		connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
			mustWrite(t, p.caller, []byte("last words"))
			_ = p.caller.Close()
			if got, err := readAll(p.accepted); string(got) != "last words" || err != io.EOF {
				t.Errorf("%q, %v", got, err)
			}
			if err := p.caller.Close(); err != net.ErrClosed {
				t.Errorf("second close: %v", err)
			}
		})
	})
	t.Run("close with unread data resets", func(t *testing.T) {
		connect(t, Config{}, func(t *testing.T, p *pair) {
			mustWrite(t, p.caller, []byte("unread"))
			_ = p.accepted.Close()
			if _, err := readAll(p.caller); err != syscall.ECONNRESET {
				t.Errorf("read: %v", err)
			}
			if _, err := p.caller.TryWrite(bufs("x")); err != syscall.ECONNRESET {
				t.Errorf("write: %v", err)
			}
		})
	})
	t.Run("writing to a closed stream resets", func(t *testing.T) {
		connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
			_ = p.accepted.Close()
			if _, err := readAll(p.caller); err != io.EOF {
				t.Errorf("read: %v", err)
			}
			mustWrite(t, p.caller, []byte("too late"))
			<-time.After(3 * time.Millisecond)
			if _, err := p.caller.TryWrite(bufs("x")); err != syscall.ECONNRESET {
				t.Errorf("write: %v", err)
			}
		})
	})
	t.Run("close wakes local calls", func(t *testing.T) {
		connect(t, Config{SendBuffer: 10, ReceiveBuffer: 10}, func(t *testing.T, p *pair) {
			mustWrite(t, p.caller, make([]byte, 20))
			errs := make(chan error, 2)
			go func() { _, err := p.caller.Read(bufs("x")); errs <- err }()
			go func() { errs <- p.caller.AwaitWritable() }()
			synctest.Wait()
			_ = p.caller.Close()
			for range 2 {
				if err := <-errs; err != net.ErrClosed {
					t.Error(err)
				}
			}
		})
	})
	t.Run("nothing is left", func(t *testing.T) {
		connect(t, Config{}, func(t *testing.T, p *pair) {
			_ = p.caller.Close()
			_ = p.accepted.Close()
			if n := len(p.f.Conns()); n != 0 {
				t.Errorf("%d connections", n)
			}
			if len(p.a.inUse)+len(p.b.inUse) != 0 {
				t.Errorf("addresses in use: %v, %v", p.a.inUse, p.b.inUse)
			}
		})
	})
}

func TestDeadlines(t *testing.T) {
	connect(t, Config{SendBuffer: 10, ReceiveBuffer: 10}, func(t *testing.T, p *pair) {
		start := time.Now()
		if err := p.caller.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.caller.Read(bufs("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("after %v", d)
		}
		mustWrite(t, p.caller, make([]byte, 20))
		_ = p.caller.SetWriteDeadline(start.Add(2 * time.Second))
		if err := p.caller.AwaitWritable(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("await: %v", err)
		}
		_ = p.caller.SetReadDeadline(time.Time{})
		_ = p.caller.SetWriteDeadline(time.Time{})
		go mustWrite(t, p.accepted, []byte("x"))
		if _, err := p.caller.Read(bufs("x")); err != nil {
			t.Errorf("read without a bound: %v", err)
		}
		// A deadline in the past wakes a waiting reader or writer.
		errs := make(chan error)
		go func() { _, err := p.caller.Read(bufs("x")); errs <- err }()
		synctest.Wait()
		_ = p.caller.SetReadDeadline(time.Now())
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("woken: %v", err)
		}
	})
}

func TestDialErrors(t *testing.T) {
	cases := map[string]struct {
		prepare  func(a, b *Host, f *Fabric)
		from, to netip.AddrPort
		want     error
		after    time.Duration
	}{
		"no listener": {from: at(addrA, 1000), to: at(addrB, 7), want: syscall.ECONNREFUSED},
		"not my address": {
			from: at(addrB, 1000), to: at(addrB, 988), want: syscall.EADDRNOTAVAIL,
		},
		"port in use":   {from: at(addrA, 1023), to: at(addrB, 988), want: syscall.EADDRINUSE},
		"no such host":  {from: at(addrA, 1000), to: at("10.0.0.9", 988), want: syscall.EHOSTUNREACH, after: 3 * time.Second},
		"other family":  {from: at(addrA, 1000), to: at("2001:db8::1", 988), want: syscall.ENETUNREACH},
		"own link down": {prepare: func(a, _ *Host, _ *Fabric) { a.Interface("eth0").SetUp(false) }, from: at(addrA, 1000), to: at(addrB, 988), want: syscall.ENETUNREACH},
		"its link down": {prepare: func(_, b *Host, _ *Fabric) { b.Interface("eth0").SetUp(false) }, from: at(addrA, 1000), to: at(addrB, 988), want: syscall.EHOSTUNREACH, after: 3 * time.Second},
		"partition":     {prepare: func(a, b *Host, f *Fabric) { f.Partition(a, b, Both) }, from: at(addrA, 1000), to: at(addrB, 988), want: syscall.ETIMEDOUT, after: 127 * time.Second},
		"one way":       {prepare: func(a, b *Host, f *Fabric) { f.Partition(a, b, Backward) }, from: at(addrA, 1000), to: at(addrB, 988), want: syscall.ETIMEDOUT, after: 127 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			connect(t, Config{}, func(t *testing.T, p *pair) {
				if c.prepare != nil {
					c.prepare(p.a, p.b, p.f)
				}
				start := time.Now()
				_, err := p.a.Dial(t.Context(), c.from, c.to)
				if !errors.Is(err, c.want) || time.Since(start) != c.after {
					t.Errorf("%v after %v; want %v after %v", err, time.Since(start), c.want, c.after)
				}
				if _, used := p.a.inUse[tuple{c.from, c.to}]; used && c.want != syscall.EADDRINUSE {
					t.Error("the port is still taken")
				}
			})
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	connect(t, Config{Link: Link{Latency: time.Second}}, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.a.Dial(ctx, at(addrA, 0), at(addrB, 988)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestListenErrors(t *testing.T) {
	connect(t, Config{}, func(t *testing.T, p *pair) {
		if _, err := p.b.Listen(at(addrB, 988), 1); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second listener: %v", err)
		}
		if _, err := p.b.Listen(at(addrA, 988), 1); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("foreign address: %v", err)
		}
		l, err := p.b.Listen(at(addrB, 0), 1)
		if err != nil || l.Addr().Port() == 0 {
			t.Fatalf("any port: %v", err)
		}
		s, err := p.a.Dial(t.Context(), at(addrA, 0), l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error)
		_ = l.Close()
		go func() { _, err := l.Accept(); accepted <- err }()
		if err := <-accepted; err != net.ErrClosed {
			t.Errorf("accept on a closed listener: %v", err)
		}
		if _, err := s.Read(bufs("x")); err != syscall.ECONNRESET {
			t.Errorf("stream that nobody accepted: %v", err)
		}
	})
}
