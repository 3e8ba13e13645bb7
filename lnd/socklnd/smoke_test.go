package socklnd

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

type echoUpper struct {
	i     lnd.Interface
	reply bool
	got   chan struct{}
	mu    sync.Mutex
	tx    lnd.Tx
	n     int
	max   int
	to    lnet.ProcessID
	buf   lnd.Memory
	rbuf  lnd.Memory
}

func (u *echoUpper) Arrived(m *lnd.Rx) error {
	u.i.Receive(m, lnd.Placement{Memory: u.rbuf.Slice(0, int(m.Header.PayloadLength)), Done: u})
	return nil
}
func (u *echoUpper) Received(m *lnd.Rx, err error) {
	if err != nil {
		panic(err)
	}
	if u.n++; u.n >= u.max {
		close(u.got)
		return
	}
	u.send()
}
func (u *echoUpper) send() {
	u.tx.Header = lnet.Header{Type: lnet.MsgPut, Src: u.i.NID(), Dest: u.to.NID, DestPID: 12345, SrcPID: 12345, PayloadLength: uint32(u.buf.Length), Handle: lnet.NoHandle}
	u.tx.To = u.to
	u.tx.Payload = u.buf
	u.tx.Done = u
	u.i.Send(&u.tx)
}
func (u *echoUpper) Sent(m *lnd.Tx, err error) {
	if err != nil {
		panic(err)
	}
}
func (u *echoUpper) PeerDown(d lnd.PeerDown)     {}
func (u *echoUpper) LinkChanged(s lnd.LinkState) {}

func pair(tb testing.TB, size, max int) (a, b *echoUpper) {
	mk := func(ip string) *echoUpper {
		c := DefaultConfig()
		c.ConnectPort = 0
		c.AcceptPort = 9988
		c.AcceptPortBulk = 9988
		d, err := New(c)
		if err != nil {
			tb.Fatal(err)
		}
		u := &echoUpper{got: make(chan struct{}), max: max, buf: lnd.MemoryOf(make([]byte, size)), rbuf: lnd.MemoryOf(make([]byte, 1<<20))}
		nid := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.MustParseAddr(ip))
		i, err := d.Open(context.Background(), lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 0), NID: nid, Device: "lo", Upper: u})
		if err != nil {
			tb.Fatal(err)
		}
		u.i = i
		tb.Cleanup(func() {
			if err := i.Close(context.Background()); err != nil {
				tb.Error(err)
			}
			if err := d.Close(); err != nil {
				tb.Error(err)
			}
		})
		return u
	}
	a, b = mk("127.0.0.2"), mk("127.0.0.3")
	a.to = lnet.ProcessID{NID: b.i.NID(), PID: 12345}
	b.to = lnet.ProcessID{NID: a.i.NID(), PID: 12345}
	return
}

func TestSmoke(t *testing.T) {
	for _, size := range []int{0, 96, 4096, 1 << 20} {
		t.Run("", func(t *testing.T) {
			a, b := pair(t, size, 100)
			a.send()
			select {
			case <-a.got:
			case <-b.got:
			case <-time.After(10 * time.Second):
				t.Fatal("timeout")
			}
		})
	}
}

func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{0, 96, 4096, 1 << 20} {
		b.Run("", func(b *testing.B) {
			x, y := pair(b, size, b.N+100)
			x.max, y.max = 50, 1<<60
			x.send()
			<-x.got
			x.n, x.max = 0, b.N
			x.got = make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			x.send()
			<-x.got
		})
	}
}
