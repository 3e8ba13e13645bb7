package o2iblnd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// sinkUpper receives PUTs into one vector and answers GETs from it. It does so at once, or when
// answer is called if hold is set.
type sinkUpper struct {
	quiet
	i     lnd.Interface
	place memory.Vector
	hold  bool
	rx    *lnd.Rx
	got   int
	errs  []error
}

func (u *sinkUpper) Arrived(m *lnd.Rx) error {
	if u.rx = m; !u.hold {
		u.answer()
	}
	return nil
}

func (u *sinkUpper) answer() {
	p := lnd.Placement{Done: u}
	if u.rx.RDMA {
		p.Reply = u.place
	} else {
		p.Memory = u.place
	}
	u.i.Receive(u.rx, p)
}

func (u *sinkUpper) Received(_ *lnd.Rx, err error) {
	if u.errs = append(u.errs, err); err == nil {
		u.got++
	}
}

func (u *sinkUpper) Withdrawn(*lnd.Rx) { u.answer() }

type outcomes []error

func (o *outcomes) Sent(_ *lnd.Tx, err error) { *o = append(*o, err) }

// forbidden is a PUT from a to b. The cases of TestForbiddenAccesses change it.
type forbidden struct {
	a, b   *sinkUpper
	source *memory.Region // of a
	tx     *lnd.Tx
}

const forbiddenSize = 10_000

// get turns the message into a GET into a's region.
func (x *forbidden) get() {
	x.tx.Header.Type, x.tx.Header.PayloadLength, x.tx.Header.Length = lnet.MsgGet, 0, forbiddenSize
	x.tx.Payload, x.tx.Sink = memory.Vector{}, x.tx.Payload
}

// outside returns memory that claims to be part of region r, but is not.
func outside(r *memory.Region) memory.Vector {
	s := r.Segment(0, forbiddenSize)
	s.Bytes = make([]byte, forbiddenSize)
	return memory.Vector{Segments: []memory.Segment{s}, Length: forbiddenSize}
}

// late sends the message, releases r while the peer holds its answer back, and then lets the peer
// answer.
func (x *forbidden) late(r *memory.Region) {
	x.b.hold = true
	x.a.i.Send(x.tx)
	synctest.Wait()
	_ = r.Release()
	x.b.answer()
}

// TestForbiddenAccesses: whatever memory a node passes to the driver, permitted accesses succeed.
// Forbidden ones fail, and the device reports them.
func TestForbiddenAccesses(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(x *forbidden)
		want   string // part of the expected report; "" for no report
		cause  error  // of the failure; nil for any
		failed bool
	}{
		{name: "registered", do: func(x *forbidden) { x.a.i.Send(x.tx) }},
		{name: "not registered", do: func(x *forbidden) {
			x.tx.Payload = memory.Of(make([]byte, forbiddenSize))
			x.a.i.Send(x.tx)
		}},
		{name: "released before", do: func(x *forbidden) {
			_ = x.source.Release()
			x.a.i.Send(x.tx)
		}},
		{name: "source released meanwhile", do: func(x *forbidden) { x.late(x.source) }, want: "not registered any more", failed: true},
		{name: "sink released meanwhile", do: func(x *forbidden) {
			x.get()
			x.late(x.source)
		}, want: "not registered any more", failed: true},
		{name: "source moved out of its region", do: func(x *forbidden) {
			x.tx.Payload = outside(x.source)
			x.a.i.Send(x.tx)
		}, want: "not within the 20000 bytes", failed: true},
		{name: "sink moved out of its region", do: func(x *forbidden) {
			_ = x.source.Register(x.b.i.(memory.Registrar))
			x.b.place = outside(x.source)
			x.a.i.Send(x.tx)
		}, want: "not within the 20000 bytes", failed: true},
		{name: "registered with another interface", do: func(x *forbidden) {
			_ = x.source.Register(x.b.i.(memory.Registrar))
			x.b.place = x.source.Slice(forbiddenSize, forbiddenSize)
			x.a.i.Send(x.tx)
		}},
		{name: "an answer that is too long", do: func(x *forbidden) {
			x.get()
			x.b.place = memory.Of(make([]byte, forbiddenSize+1))
			x.a.i.Send(x.tx)
		}, failed: true},
		{name: "a header with a large NID", do: func(x *forbidden) {
			x.tx.Header.Src, _ = lnet.ParseNID("fd00::1@o2ib")
			x.a.i.Send(x.tx)
		}, cause: lnd.ErrLargeNID, failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reports []string
				f := fabric.New(fabric.Config{Report: func(err error) { reports = append(reports, err.Error()) }})
				t.Cleanup(f.Close)
				x := newForbidden(t, f)
				var done outcomes
				x.tx.Done = &done
				c.do(x)
				synctest.Wait()
				if len(done) != 1 || (done[0] != nil) != c.failed || x.b.got == 1 == c.failed || c.cause != nil && !errors.Is(done[0], c.cause) {
					t.Errorf("completed with %v, received with %v", done, x.b.errs)
				}
				all := strings.Join(reports, "\n")
				if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
					t.Errorf("reported %q, want %q", all, c.want)
				}
			})
		})
	}
}

// newForbidden opens two nodes, and closes them at the end of the test.
func newForbidden(t *testing.T, f *fabric.Fabric) *forbidden {
	open := func(k int) *sinkUpper {
		p := f.Host(address(k), address(k)).Open()
		d, err := o2iblnd.New(config(t, p))
		if err != nil {
			t.Fatal(err)
		}
		u := &sinkUpper{place: memory.Of(make([]byte, forbiddenSize))}
		if u.i, err = d.Open(t.Context(), lnd.Config{Net: o2ib, NID: nidOf(k), Upper: u}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, err := range []error{u.i.Close(context.Background()), d.Close(), p.Close()} {
				if err != nil {
					t.Error(err)
				}
			}
		})
		return u
	}
	x := &forbidden{a: open(0), b: open(1), source: memory.NewRegion(make([]byte, 2*forbiddenSize), nil)}
	if err := x.source.Register(x.a.i.(memory.Registrar)); err != nil {
		t.Fatal(err)
	}
	to := lnet.ProcessID{NID: nidOf(1), PID: lnet.PIDLustre}
	x.tx = &lnd.Tx{
		Header: lnet.Header{
			Type: lnet.MsgPut, Dest: to.NID, Src: nidOf(0), DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
			Handle: lnet.NoHandle, PayloadLength: forbiddenSize,
		},
		To: to, Payload: x.source.Slice(0, forbiddenSize),
	}
	return x
}

// TestTheDeviceRefusesMemory: if the device refuses a registration, Register fails without another
// effect. Memory that is still registered when the interface closes can be released afterwards.
func TestTheDeviceRefusesMemory(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		s := newStation(t, f, 0, nil)
		d, full := s.host.Device(0), errors.New("full")
		d.FailRegister(full)
		r := memory.NewRegion(make([]byte, 10), nil)
		if err := r.Register(s.i.(memory.Registrar)); !errors.Is(err, full) || d.Registered() != 0 {
			t.Errorf("%v, %d registered", err, d.Registered())
		}
		d.FailRegister(nil)
		if err := r.Register(s.i.(memory.Registrar)); err != nil || d.Registered() != 1 {
			t.Errorf("%v, %d registered", err, d.Registered())
		}
		if _, err := s.d.Open(t.Context(), lnd.Config{Net: o2ib, NID: nidOf(0), Upper: s}); !errors.Is(err, lnd.ErrExists) {
			t.Errorf("a NID is opened twice: %v", err)
		}
		s.close()
		if err := r.Release(); err != nil || d.Registered() != 0 {
			t.Errorf("release after Close: %v, %d registered", err, d.Registered())
		}
	})
}
