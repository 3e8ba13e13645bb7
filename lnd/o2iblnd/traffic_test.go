package o2iblnd_test

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// TestCloseUnderTraffic closes interfaces, and with them the device and its memory, while other
// goroutines send. Every message is completed, and no freed memory is used.
func TestCloseUnderTraffic(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	b := newStation(t, f, 1, nil)
	defer b.close()
	host := f.Host("traffic", address(0))
	const senders = 4
	for range 20 {
		a := &station{t: t, host: host, proc: host.Open()}
		c := config(t, a.proc)
		c.RedialPause = 0
		var err error
		if a.d, err = o2iblnd.New(c); err != nil {
			t.Fatal(err)
		}
		if a.i, err = a.d.Open(t.Context(), lnd.Config{NID: nidOf(0), Upper: a, Tunables: lnd.Tunables{PeerTimeout: -1}}); err != nil {
			t.Fatal(err)
		}
		var started, ended sync.WaitGroup
		for k := range senders {
			started.Add(1)
			ended.Go(func() {
				s := &sender{done: make(chan error, 1)}
				for n := 0; ; n++ {
					size := []int{100, 3000, 50_000, lnet.MTU}[(n+k)%4]
					err := s.send(a.i, nidOf(1), make([]byte, size))
					if n == 3 {
						started.Done()
					}
					if lnd.StatusOf(err) != lnd.StatusOK && n > 3 {
						return
					}
				}
			})
		}
		started.Wait()
		a.close()
		ended.Wait()
	}
}

// sender sends messages one after the other.
type sender struct {
	m    lnd.Tx
	done chan error
}

func (s *sender) Sent(_ *lnd.Tx, err error) { s.done <- err }

func (s *sender) send(i lnd.Interface, to lnet.NID, payload []byte) error {
	s.m = lnd.Tx{
		Header: lnet.Header{
			Type: lnet.MsgPut, Src: i.NID(), Dest: to, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: lnet.NoHandle,
			PayloadLength: uint32(len(payload)),
		},
		To: lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, Payload: memory.Of(payload), Done: s,
	}
	i.Send(&s.m)
	return <-s.done
}

// TestCloseWhileMuchIsCalled closes an interface with the maximum number of calls in progress,
// while others wait for a slot.
func TestCloseWhileMuchIsCalled(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a := newStation(t, f, 0, nil)
		const peers = 600
		for k := range peers {
			a.send(lnet.NIDFromIP(o2ib, netip.AddrFrom4([4]byte{10, 9, byte(k >> 8), byte(k)})), 1, 100)
		}
		time.Sleep(time.Second)
		calls := counter(a, "calls_total")
		a.close()
		if sent, errs := a.outcome(); sent != peers || len(errs) != peers {
			t.Errorf("%d of %d messages are completed, %d with an error", sent, peers, len(errs))
		}
		if after := counter(a, "calls_total"); calls >= peers || after != calls {
			t.Errorf("%d calls, and %d when it was closed", calls, after-calls)
		}
	})
}

// TestRegisterWhileDevicesChange registers and releases memory while the interface leaves its
// device and finds it again. No registration outlives its release or its device.
func TestRegisterWhileDevicesChange(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	a := newStation(t, f, 20, nil)
	r := a.i.(memory.Registrar)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			b := make([]byte, 5000)
			for {
				select {
				case <-stop:
					return
				default:
				}
				m, err := r.Register(b)
				if err != nil {
					continue // there is no device at the moment
				}
				runtime.Gosched()
				if err := m.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range uint64(5) {
		a.host.Device(0).Port(1).ChangeAddress()
		for counter(a, "rebinds_total") == n {
			runtime.Gosched()
		}
	}
	close(stop)
	workers.Wait()
	a.close()
}
