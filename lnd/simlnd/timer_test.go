package simlnd_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// The type nobody is an upper that drops all messages.
type nobody struct {
	i       lnd.Interface
	timeout time.Duration // LNet's
}

func (u *nobody) Arrived(m *lnd.Rx) error {
	u.i.Receive(m, lnd.Placement{})
	return nil
}
func (*nobody) Withdrawn(*lnd.Rx)               {}
func (*nobody) PeerDown(lnd.PeerDown)           {}
func (*nobody) PeerStalled(lnet.NID, time.Time) {}
func (*nobody) ConnectionsLost(peer lnet.NID)   {}
func (*nobody) PeerRestarted(lnet.NID)          {}
func (*nobody) LinkChanged(lnd.LinkState)       {}
func (*nobody) Sent(*lnd.Tx, error)             {}
func (u *nobody) LNDTimeout() time.Duration     { return u.timeout }
func (*nobody) Vouched(lnet.NID) bool           { return false }

// Given a peer that sends half a message and then stops, when the LND timeout has passed, then its
// connection is closed within a quarter of the timeout more. The timeout is sock_timeout, or the one that
// LNet derives if that is 0.
//
// socklnd 14 (1), 14 (5)-(6)
func TestWhenAMessageThatStopsIsNoticed(t *testing.T) {
	for _, c := range []struct{ sock, lnet, want time.Duration }{
		{50 * time.Second, 16 * time.Second, 50 * time.Second},
		{0, 16 * time.Second, 16 * time.Second},
		{0, 5 * time.Second, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := simlnd.New(simlnd.Config{Seed: 1})
			defer f.Close()
			config := socklnd.DefaultConfig()
			config.SockTimeout = c.sock
			at, from := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
			nid := func(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), a) }
			d, err := simlnd.NewDriver(f.Host("node", at.String()), config)
			if err != nil {
				t.Fatal(err)
			}
			u := &nobody{timeout: c.lnet}
			if u.i, err = d.Open(t.Context(), lnd.Config{Net: nid(at).Net(), NID: nid(at), Upper: u}); err != nil {
				t.Fatal(err)
			}
			w, err := f.Host("peer", from.String()).Dial(t.Context(), netip.AddrPortFrom(from, 1000), netip.AddrPortFrom(at, 988))
			if err != nil {
				t.Fatal(err)
			}
			h := protocol.Hello{Version: protocol.V3, Src: nid(from), Dst: nid(at), SrcPID: lnet.PIDLustre, SrcIncarnation: 1, Type: protocol.Control}
			b, err := h.Append(lnet.AcceptorRequest{NID: nid(at)}.Append(nil, binary.LittleEndian), binary.LittleEndian)
			if err != nil {
				t.Fatal(err)
			}
			frame := protocol.Frame{Type: protocol.FrameLNet}
			if _, err := w.TryWrite([][]byte{b, frame.Append(nil, binary.LittleEndian)}); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for err == nil {
				_, err = w.Read([][]byte{make([]byte, 100)})
			}
			if took := time.Since(begin); took < c.want || took > c.want*5/4+time.Second {
				t.Errorf("sock_timeout %v, LNet's %v: closed after %v", c.sock, c.lnet, took)
			}
			if err := u.i.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			_ = w.Close()
		})
	}
}

// Given the address of a peer that does not exist, when messages are sent to it again and again, then the
// pauses between connection attempts double between their bounds, and most messages fail at once. A
// successful connection resets the pause.
//
// socklnd 7 (1), 7 (4)-(5)
func TestPausesBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := simlnd.New(simlnd.Config{Seed: 1})
		defer f.Close()
		config := socklnd.DefaultConfig()
		config.MaxReconnect = 8 * time.Second
		at, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		nid := func(a netip.Addr) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), a) }
		open := func(a netip.Addr) (*socklnd.Driver, *nobody) {
			d, err := simlnd.NewDriver(f.Host(a.String()), config)
			if err != nil {
				t.Fatal(err)
			}
			u := &nobody{}
			if u.i, err = d.Open(t.Context(), lnd.Config{Net: nid(a).Net(), NID: nid(a), Upper: u}); err != nil {
				t.Fatal(err)
			}
			return d, u
		}
		shut := func(d *socklnd.Driver, u *nobody) {
			if err := u.i.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, a := range []netip.Addr{at, to} { // the second address has no listener
			f.Host(a.String(), a.String())
		}
		d, u := open(at)
		failures := func() uint64 {
			for _, c := range u.i.Counters() {
				if c.Name == "connect_failures_total" {
					return c.Value
				}
			}
			return 0
		}
		gaps := func(count int) (seconds []int) {
			last, calls := time.Now(), failures()
			for len(seconds) < count {
				u.i.Send(&lnd.Tx{To: lnet.ProcessID{NID: nid(to), PID: lnet.PIDLustre}, Done: u,
					Header: lnet.Header{Type: lnet.MsgPut, Src: nid(at), Dest: nid(to)}})
				time.Sleep(10 * time.Millisecond)
				if failures() != calls {
					seconds = append(seconds, int(time.Since(last)/time.Second))
					last, calls = time.Now(), failures()
				}
			}
			return seconds
		}
		within := func(got []int, want ...int) { // up to a quarter later
			for k := range want {
				if got[k] < want[k] || got[k] > want[k]*5/4 {
					t.Errorf("pauses of %v seconds, want %v or up to a quarter more", got, want)
					return
				}
			}
		}
		within(gaps(6), 0, 1, 2, 4, 8, 8)
		other, v := open(to)
		time.Sleep(11 * time.Second)
		u.i.Send(&lnd.Tx{To: lnet.ProcessID{NID: nid(to), PID: lnet.PIDLustre}, Done: u,
			Header: lnet.Header{Type: lnet.MsgPut, Src: nid(at), Dest: nid(to)}})
		time.Sleep(3 * time.Second)
		shut(other, v)
		time.Sleep(time.Second)
		within(gaps(3), 0, 1, 2)
		shut(d, u)
	})
}
