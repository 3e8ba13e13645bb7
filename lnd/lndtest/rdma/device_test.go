package rdma_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest/rdma"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// upper receives PUTs into one buffer, at once or on request.
type upper struct {
	i     lnd.Interface
	place memory.Vector
	hold  bool
	rx    *lnd.Rx
	got   int
}

func (u *upper) Arrived(m *lnd.Rx) error {
	if u.rx = m; !u.hold {
		u.answer()
	}
	return nil
}

func (u *upper) answer() {
	p := lnd.Placement{Done: u}
	if u.rx.RDMA {
		p.Reply = u.place
	} else {
		p.Memory = u.place
	}
	u.i.Receive(u.rx, p)
}

func (u *upper) Received(_ *lnd.Rx, err error) {
	if err == nil {
		u.got++
	}
}
func (u *upper) Withdrawn(*lnd.Rx)               { u.answer() }
func (u *upper) PeerDown(lnd.PeerDown)           {}
func (u *upper) PeerRestarted(lnet.NID)          {}
func (u *upper) LNDTimeout() time.Duration       { return 0 }
func (u *upper) Vouched(lnet.NID) bool           { return false }
func (u *upper) LinkChanged(lnd.LinkState)       {}
func (u *upper) PeerStalled(lnet.NID, time.Time) {}
func (u *upper) ConnectionsLost(lnet.NID)        {}

type sent struct{ errs []error }

func (s *sent) Sent(_ *lnd.Tx, err error) { s.errs = append(s.errs, err) }

// Every forbidden access is reported, and no allowed access is.
func TestViolationsAreReported(t *testing.T) {
	const size = 10_000
	type scene struct {
		a, b   *upper
		source *memory.Region // of a
		tx     *lnd.Tx
	}
	for _, c := range []struct {
		name string
		do   func(x *scene)
		want string // of the report; "": no report
		got  int
	}{
		{"registered", func(x *scene) { x.a.i.Send(x.tx) }, "", 1},
		{"not registered", func(x *scene) {
			x.tx.Payload = memory.Of(make([]byte, size))
			x.a.i.Send(x.tx)
		}, "", 1},
		{"released before", func(x *scene) {
			_ = x.source.Release()
			x.a.i.Send(x.tx)
		}, "", 1},
		{"released meanwhile", func(x *scene) {
			x.b.hold = true
			x.a.i.Send(x.tx)
			synctest.Wait()
			_ = x.source.Release()
			x.b.answer()
		}, "released while 1 messages use it", 1},
		{"moved out of its region", func(x *scene) {
			s := x.source.Segment(0, size)
			s.Bytes = make([]byte, size)
			x.tx.Payload = memory.Vector{Segments: []memory.Segment{s}, Length: size}
			x.a.i.Send(x.tx)
		}, "not registered", 1},
		{"registered with another interface", func(x *scene) {
			_ = x.source.Register(x.b.i.(memory.Registrar))
			x.b.place = x.source.Slice(size, size)
			x.a.i.Send(x.tx)
		}, "", 1},
		{"an answer that is too long", func(x *scene) {
			x.tx.Header.Type, x.tx.Header.Length = lnet.MsgGet, size
			x.tx.Payload, x.tx.Sink = memory.Vector{}, x.tx.Payload
			x.b.place = memory.Of(make([]byte, size+1))
			x.a.i.Send(x.tx)
		}, "an answer of 10001 bytes to a request for 10000", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reports []string
				f := rdma.New(lnet.TypeO2IB, func(err error) { reports = append(reports, err.Error()) })
				open := func(k uint32) *upper {
					nid := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeO2IB, 0), k)
					u := &upper{place: memory.Of(make([]byte, size))}
					i, err := f.NewDriver(rdma.DefaultLimits()).Open(context.Background(), lnd.Config{Net: nid.Net(), NID: nid, Upper: u})
					if err != nil {
						t.Fatal(err)
					}
					u.i = i
					return u
				}
				x := &scene{a: open(1), b: open(2), source: memory.NewRegion(make([]byte, 2*size), nil)}
				if err := x.source.Register(x.a.i.(memory.Registrar)); err != nil {
					t.Fatal(err)
				}
				to := lnet.ProcessID{NID: x.b.i.NID(), PID: lnet.PIDLustre}
				var done sent
				x.tx = &lnd.Tx{
					Header: lnet.Header{Type: lnet.MsgPut, Dest: to.NID, Src: x.a.i.NID(), PayloadLength: size},
					To:     to, Payload: x.source.Slice(0, size), Done: &done,
				}
				c.do(x)
				synctest.Wait()
				if len(done.errs) != 1 || x.b.got != c.got {
					t.Errorf("completed with %v, arrived %d times", done.errs, x.b.got)
				}
				for _, u := range []*upper{x.a, x.b} {
					if err := u.i.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}
				all := strings.Join(reports, "\n")
				if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
					t.Errorf("reported %q, want %q", all, c.want)
				}
			})
		})
	}
}

// A device may refuse to register memory. Memory that it has registered is released when it is closed.
func TestTheDeviceRefusesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdma.New(lnet.TypeO2IB, nil)
		d := f.NewDriver(rdma.DefaultLimits())
		nid := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeO2IB, 0), 1)
		i, err := d.Open(context.Background(), lnd.Config{Net: nid.Net(), NID: nid, Upper: &upper{}})
		if err != nil {
			t.Fatal(err)
		}
		full := errors.New("full")
		d.FailRegister(full)
		r := memory.NewRegion(make([]byte, 10), nil)
		if err := r.Register(i.(memory.Registrar)); !errors.Is(err, full) || f.Registered(nid) != 0 {
			t.Errorf("%v, %d registered", err, f.Registered(nid))
		}
		d.FailRegister(nil)
		if err := r.Register(i.(memory.Registrar)); err != nil || f.Registered(nid) != 1 {
			t.Errorf("%v, %d registered", err, f.Registered(nid))
		}
		if _, err := d.Open(context.Background(), lnd.Config{Net: nid.Net(), NID: nid}); err == nil {
			t.Error("a NID is opened twice")
		}
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := r.Release(); err != nil {
			t.Errorf("release after Close: %v", err)
		}
	})
}
