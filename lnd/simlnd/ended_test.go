package simlnd

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// TestEnded checks Ended for a stream without a reader, with and without unread bytes.
func TestEnded(t *testing.T) {
	keepalive := socklnd.StreamOptions{KeepaliveIdle: time.Second, KeepaliveInterval: time.Second, KeepaliveCount: 3}
	for name, c := range map[string]struct {
		end  func(p *pair)
		want error
	}{
		"alive":      {func(*pair) {}, nil},
		"closed":     {func(p *pair) { _ = p.caller.Close() }, io.EOF},
		"half close": {func(p *pair) { p.conn.Cut(Forward, 0, CutEnd) }, io.EOF},
		"reset":      {func(p *pair) { p.conn.Reset() }, syscall.ECONNRESET},
		"partition":  {func(p *pair) { p.f.Partition(p.a, p.b, Both) }, syscall.ETIMEDOUT},
		"closed here": {func(p *pair) {
			_ = p.accepted.Close()
		}, net.ErrClosed},
	} {
		for _, unread := range []string{"", "unread"} {
			t.Run(name+unread, func(t *testing.T) {
				connect(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, p *pair) {
					if err := p.accepted.Configure(keepalive); err != nil {
						t.Fatal(err)
					}
					if unread != "" {
						mustWrite(t, p.caller, []byte(unread))
					}
					<-time.After(time.Second)
					if err := p.accepted.Ended(); err != nil {
						t.Errorf("before the end: %v", err)
					}
					c.end(p)
					<-time.After(time.Minute)
					synctest.Wait()
					if err := p.accepted.Ended(); err != c.want {
						t.Errorf("%v, want %v", err, c.want)
					}
				})
			})
		}
	}
}

// TestEndedBehindAFullWindow checks an end that cannot arrive because the bytes before it are not read. A
// sender at the other end gets a reset, which does arrive.
func TestEndedBehindAFullWindow(t *testing.T) {
	link := Link{Latency: time.Millisecond}
	connect(t, Config{Link: link, SendBuffer: 1000, ReceiveBuffer: 500}, func(t *testing.T, p *pair) {
		data := pattern(1000)
		mustWrite(t, p.caller, data)
		_ = p.caller.Close()
		<-time.After(time.Minute)
		if err := p.accepted.Ended(); err != nil {
			t.Errorf("before anything is sent: %v", err)
		}
		mustWrite(t, p.accepted, []byte("who is there?"))
		<-time.After(2 * link.Latency)
		synctest.Wait()
		if err := p.accepted.Ended(); err != syscall.ECONNRESET {
			t.Errorf("after the answer: %v, want a reset", err)
		}
		if got, err := readAll(p.accepted); !bytes.Equal(got, data[:500]) || err != syscall.ECONNRESET {
			t.Errorf("read %d bytes, %v; want what the window took, and the reset", len(got), err)
		}
	})
}
