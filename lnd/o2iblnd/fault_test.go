package o2iblnd_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// TestLoss checks that a few losses only delay messages, and that persistent loss ends the
// connection.
//
// o2iblnd 11 (2), 11 (4), 13.3
func TestLoss(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		patient := func(c *o2iblnd.Config) { c.Timeout = time.Minute }
		a, b := newStation(t, f, 0, patient), newStation(t, f, 1, patient)
		a.works(b)
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{Loss: 0.3})
		a.send(nidOf(1), 20, 20_000)
		time.Sleep(5 * time.Minute)
		if sent, errs := a.outcome(); sent != 20 || len(errs) > 0 {
			t.Errorf("losses: %d of 20 sent, %v", sent, errs)
		}
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{Loss: 1})
		a.send(nidOf(1), 1, 100)
		time.Sleep(30 * time.Second)
		_, errs := a.outcome()
		if len(errs) != 1 || lnd.StatusOf(errs[0]) != lnd.StatusRemoteError || !errors.Is(errs[0], lnd.ErrDisconnected) {
			t.Errorf("nothing arrives: %v", errs)
		}
		if len(a.told().downs) != 1 {
			t.Errorf("the loss of the peer was told %d times", len(a.told().downs))
		}
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{})
		a.works(b)
		b.works(a)
		if n := f.Faults().RetryExceeded; n == 0 {
			t.Error("no retries were exceeded")
		}
		a.close()
		b.close()
	})
}

// TestDeviceRemoved: given an interface whose device is removed, then the interface stays and uses
// the next device. Memory that programs have registered is registered with it too.
//
// o2iblnd 16
func TestDeviceRemoved(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		b.works(a)
		b.holdAll()
		a.send(nidOf(1), 5, 50_000)
		synctest.Wait()
		a.host.Device(0).Remove()
		time.Sleep(3 * time.Second)
		if _, errs := a.outcome(); len(errs) != 5 {
			t.Errorf("%d of 5 messages have failed: %v", len(errs), errs)
		}
		if a.i.Link() != lnd.LinkDown {
			t.Error("the link is up")
		}
		if !a.host.Device(0).Released() {
			t.Error("the removed device is still in use")
		}
		a.send(nidOf(1), 1, 100)
		time.Sleep(time.Minute)
		if _, errs := a.outcome(); len(errs) != 1 {
			t.Errorf("without a device: %v", errs)
		}
		b.release()
		a.host.AddDevice(address(0))
		time.Sleep(3 * time.Second)
		if diff := cmp.Diff([]lnd.LinkState{lnd.LinkDown, lnd.LinkUp}, a.told().links); diff != "" {
			t.Errorf("link (-want +got):\n%s", diff)
		}
		a.works(b)
		b.works(a)
		if a.told().restarted+b.told().restarted > 0 {
			t.Error("another device counts as another life")
		}
		a.close()
		b.close()
	})
}

// TestAStallOutlastsFailedCalls: failed attempts to connect reveal nothing about the peer, so they
// do not end a stall. It ends when nothing has waited for the peer for a while.
//
// o2iblnd 13.1
func TestAStallOutlastsFailedCalls(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		f.Partition(a.host, b.host, fabric.Both)
		a.send(nidOf(1), 1, 100)
		time.Sleep(20 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 {
			t.Fatalf("%d messages have failed, want 1", len(errs))
		}
		if !a.told().stalled {
			t.Error("the stall ended with the attempts to connect")
		}
		time.Sleep(time.Minute)
		if a.told().stalled || counter(a, "peers") != 0 {
			t.Errorf("stalled: %v; %d peers are left", a.told().stalled, counter(a, "peers"))
		}
		a.send(nidOf(1), 1, 100)
		time.Sleep(3 * time.Second)
		if !a.told().stalled {
			t.Error("the second stall was not reported")
		}
		f.Heal(a.host, b.host, fabric.Both)
		a.works(b)
		time.Sleep(time.Second)
		if a.told().stalled {
			t.Error("the stall outlasts the peer's answer")
		}
		a.close()
		b.close()
	})
}

// TestTheLastConnectionEndsWhileTheNodeJudgesACaller: given a peer whose last connection ends while
// it is calling, then PeerDown is reported when the call is given up.
//
// o2iblnd 13.1
func TestTheLastConnectionEndsWhileTheNodeJudgesACaller(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		var req protocol.Message
		p.answer = func(_ int, m *protocol.Message) (bool, []byte) {
			req = *m
			return true, encode(t, p.ack(m))
		}
		a.send(p.nid, 1, 0)
		time.Sleep(time.Second)
		hold := f.Hold(p.host, a.host, fabric.Forward)
		m := protocol.Message{
			Version: protocol.V2, Type: protocol.ConnReq, Src: p.nid, SrcStamp: puppetStamp, Dst: nidOf(0),
			Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
		}
		p.call(nidOf(0).IP(), encode(t, m))
		time.Sleep(time.Second)
		f.SetLink(a.host, p.host, fabric.Both, fabric.Link{CMLoss: 1}) // the caller gets no answer
		hold.Release()
		time.Sleep(time.Second)
		m = protocol.Message{Version: protocol.V2, Type: protocol.ConnReq, Src: p.nid, SrcStamp: puppetStamp, Dst: req.Src, DstStamp: req.SrcStamp}
		p.say(t, p.ids[0], m) // violates the protocol
		time.Sleep(time.Second)
		if n := counter(a, "connections"); n != 0 || len(a.told().downs) > 0 {
			t.Errorf("%d connections, and %d notices of the loss while the peer calls", n, len(a.told().downs))
		}
		time.Sleep(10 * time.Second)
		if n := len(a.told().downs); n != 1 {
			t.Errorf("%d notices of the loss, want 1", n)
		}
		a.close()
	})
}

// TestAddressMoves: when an address moves to another device, the interface creates all objects
// again there.
//
// o2iblnd 16
func TestAddressMoves(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		a.host.Device(0).Port(1).ChangeAddress()
		time.Sleep(3 * time.Second)
		a.works(b)
		b.works(a)
		a.close()
		b.close()
	})
}

// TestPort: when a port goes down, LinkChanged reports it, and connections stay open.
//
// o2iblnd 16
func TestPort(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		port := a.host.Device(0).Port(1)
		port.SetUp(false)
		a.send(nidOf(1), 3, 100)
		time.Sleep(4 * time.Second)
		if a.i.Link() != lnd.LinkDown {
			t.Error("the link is up")
		}
		port.SetUp(true)
		time.Sleep(8 * time.Second)
		if sent, errs := a.outcome(); sent != 3 || len(errs) > 0 {
			t.Errorf("%d of 3 sent, %v", sent, errs)
		}
		if diff := cmp.Diff([]lnd.LinkState{lnd.LinkDown, lnd.LinkUp}, a.told().links); diff != "" {
			t.Errorf("link (-want +got):\n%s", diff)
		}
		if len(a.told().downs) > 0 {
			t.Errorf("the peer was lost: %v", a.told().downs)
		}
		a.close()
		b.close()
	})
}

// TestDisconnectUnderWay: when connections are closed on request, messages that the peer may have
// seen fail with a status that forbids a resend. The others fail with one that allows it.
func TestDisconnectUnderWay(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		b.outcome()
		a.send(nidOf(1), 20, 100) // some are posted, the others wait for credits
		a.i.Disconnect(nidOf(1))
		_, errs := a.outcome()
		count := map[lnd.Status]int{}
		for _, err := range errs {
			count[lnd.StatusOf(err)]++
		}
		if count[lnd.StatusLocalError] == 0 || count[lnd.StatusLocalAborted] == 0 || len(count) != 2 {
			t.Errorf("%v of 20 messages", count)
		}
		a.works(b)
		a.close()
		b.close()
	})
}

// TestPeerKilled: a killed process, or a crashed host, comes back as a new incarnation. The
// rejection CONN_STALE announces that, whichever side calls first.
//
// o2iblnd 12.3, 12.6
func TestPeerKilled(t *testing.T) {
	for _, crash := range []bool{false, true} {
		for _, peerFirst := range []bool{false, true} {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
				a.works(b)
				b.works(a)
				for life := 1; life <= 3; life++ {
					b.holdAll()
					a.send(nidOf(1), 3, 50_000)
					synctest.Wait()
					if crash {
						b.host.Crash()
					} else {
						b.proc.Kill()
					}
					b.close()
					b = newStation(t, f, 1, nil)
					time.Sleep(2 * time.Second)
					if peerFirst {
						b.works(a)
					}
					a.works(b)
					b.works(a)
					if a.told().restarted != life || b.told().restarted != 0 {
						t.Errorf("crash %v, life %d: told of %d, %d restarts", crash, life, a.told().restarted, b.told().restarted)
					}
				}
				a.close()
				b.close()
			})
		}
	}
}

// TestPoolEmpty: the messages in flight, in both directions, need more memory than the pool has.
// All of them arrive.
func TestPoolEmpty(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		small := func(c *o2iblnd.Config) { c.Pool = 4 << 20; c.Timeout = time.Minute }
		a, b := newStation(t, f, 0, small), newStation(t, f, 1, small)
		a.send(nidOf(1), 40, lnet.MTU)
		b.send(nidOf(0), 40, lnet.MTU)
		a.send(nidOf(1), 40, 2000)
		time.Sleep(30 * time.Second)
		for s, want := range map[*station]int{a: 80, b: 40} {
			if sent, errs := s.outcome(); sent != want || len(errs) > 0 {
				t.Errorf("node %d: %d of %d sent, %v", s.k, sent, want, errs)
			}
			if counter(s, "starved_total") == 0 {
				t.Errorf("node %d: the pool was never empty", s.k)
			}
		}
		a.close()
		b.close()
	})
}

func counter(s *station, name string) uint64 {
	for _, c := range s.i.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	s.t.Errorf("no counter %s", name)
	return 0
}

// TestTwoNets: two nets on one address share a listener, and requests reach the right one.
//
// o2iblnd 3.1 (1), 3.1 (2)
func TestTwoNets(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		second := func(s *station) *station {
			o := &station{t: t, k: s.k + 10, d: s.d}
			nid := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 1), nidOf(s.k).IP())
			i, err := s.d.Open(t.Context(), lnd.Config{NID: nid, Upper: o, Tunables: lnd.Tunables{PeerTimeout: -1}})
			if err != nil {
				t.Fatal(err)
			}
			o.i = i
			return o
		}
		a1, b1 := second(a), second(b)
		for _, p := range [][2]*station{{a, b}, {a1, b1}, {b, a}, {b1, a1}} {
			p[0].works(p[1])
		}
		if _, err := a.d.Open(t.Context(), lnd.Config{NID: nidOf(0), Upper: a}); !errors.Is(err, lnd.ErrExists) {
			t.Errorf("the same NID again: %v", err)
		}
		for _, s := range []*station{a1, b1} {
			if err := s.i.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		a.works(b) // the listener is still there
		a.i.Disconnect(nidOf(1))
		b.works(a)
		a.close()
		b.close()
	})
}

// TestNobodyTakesAll: given a peer that announces data and does not send it, then it holds only a
// share of the pool, and other peers get memory too.
func TestNobodyTakesAll(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		small := func(c *o2iblnd.Config) { c.Pool = 8 << 20; c.Timeout = time.Minute }
		a, b, p := newStation(t, f, 0, small), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		for n := range 8 { // each request is answered, and then no data comes
			request := protocol.Message{
				Version: protocol.V2, Type: protocol.ConnReq, Src: p.nid, SrcStamp: puppetStamp, Dst: nidOf(0),
				Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
			}
			p.call(nidOf(0).IP(), encode(t, request))
			time.Sleep(time.Second)
			e := p.take()
			if len(e) != 1 || e[0].Kind != verbs.EventEstablished {
				t.Fatalf("%v", e)
			}
			var ack protocol.Message
			if _, err := ack.Decode(e[0].Private[:e[0].PrivateLen], protocol.Check); err != nil {
				t.Fatal(err)
			}
			m := protocol.Message{
				Version: protocol.V2, Type: protocol.PutReq, Src: p.nid, SrcStamp: puppetStamp, Dst: ack.Src, DstStamp: ack.SrcStamp,
				LNet: lnet.Header{Type: lnet.MsgPut, Src: p.nid, Dest: nidOf(0), PayloadLength: lnet.MTU}, Cookie: protocol.Cookie(n),
			}
			p.say(t, p.ids[n], m)
		}
		time.Sleep(time.Second)
		if counter(a, "starved_total") == 0 {
			t.Error("one peer has got all that it wanted")
		}
		b.works(a)
		b.send(nidOf(0), 10, lnet.MTU)
		time.Sleep(5 * time.Second)
		if sent, errs := b.outcome(); sent != 10 || len(errs) > 0 {
			t.Errorf("another peer: %d of 10 sent, %v", sent, errs)
		}
		a.close()
		b.close()
	})
}

// TestRegistered: memory that programs have registered is sent without a copy, also on a device
// that was added after the registration.
func TestRegistered(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		region := memory.NewRegion(make([]byte, lnet.MTU), nil)
		if err := region.Register(a.i.(memory.Registrar)); err != nil {
			t.Fatal(err)
		}
		check := func(direct uint64) {
			t.Helper()
			bounced := counter(a, "bounced_total")
			m := &lnd.Tx{
				Header: lnet.Header{Type: lnet.MsgPut, Src: nidOf(0), Dest: nidOf(1), Handle: lnet.NoHandle, PayloadLength: 100_000},
				To:     lnet.ProcessID{NID: nidOf(1), PID: lnet.PIDLustre}, Payload: region.Slice(777, 100_000), Done: a,
			}
			a.outcome()
			a.i.Send(m)
			time.Sleep(time.Second)
			if sent, errs := a.outcome(); sent != 1 || len(errs) > 0 {
				t.Errorf("%d sent, %v", sent, errs)
			}
			if d, n := counter(a, "direct_total"), counter(a, "bounced_total")-bounced; d != direct || n != 0 {
				t.Errorf("%d direct, want %d; %d copied", d, direct, n)
			}
		}
		check(1)
		a.host.Device(0).Remove()
		time.Sleep(3 * time.Second)
		a.host.AddDevice(address(0))
		time.Sleep(3 * time.Second)
		a.works(b)
		check(2)
		if err := region.Release(); err != nil {
			t.Error(err)
		}
		a.close()
		b.close()
	})
}

// TestDeviceFails: when a device reports that it has failed, or has lost completions, all
// interfaces leave it. It is closed and opened again, although it was never removed.
//
// o2iblnd 16
func TestDeviceFails(t *testing.T) {
	for _, kind := range []verbs.AsyncKind{verbs.AsyncDeviceFatal, verbs.AsyncCQError} {
		t.Run(kind.String(), func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
				a.host.Device(0).Port(1).AddAddress(address(30))
				second := &station{t: t, k: 30, d: a.d}
				var err error
				if second.i, err = a.d.Open(t.Context(), lnd.Config{NID: nidOf(30), Upper: second}); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					a.works(b)
					second.works(b)
					b.holdAll()
					a.send(nidOf(1), 5, 50_000)
					second.send(nidOf(1), 5, 50_000)
					synctest.Wait()
					a.host.Device(0).Inject(verbs.AsyncEvent{Kind: kind})
					time.Sleep(5 * time.Second)
					for _, s := range []*station{a, second} {
						if _, errs := s.outcome(); len(errs) != 5 {
							t.Errorf("node %d: %d of 5 messages have failed: %v", s.k, len(errs), errs)
						}
						if s.i.Link() != lnd.LinkUp {
							t.Errorf("node %d: the link is down", s.k)
						}
					}
					b.release()
				}
				if err := second.i.Close(t.Context()); err != nil {
					t.Error(err)
				}
				a.close()
				b.close()
			})
		})
	}
}

// TestOneDoesNotAnswer: given messages that wait for memory which a silent peer does not release,
// then messages to other peers are not delayed.
func TestOneDoesNotAnswer(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		small := func(c *o2iblnd.Config) { c.Pool = 8 << 20; c.Timeout = time.Minute }
		a, b, p := newStation(t, f, 0, small), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		p.answer = func(_ int, m *protocol.Message) (bool, []byte) { return true, encode(t, p.ack(m)) }
		a.send(p.nid, 8, lnet.MTU)
		time.Sleep(time.Second)
		a.send(nidOf(1), 20, lnet.MTU)
		time.Sleep(10 * time.Second)
		if sent, errs := a.outcome(); sent != 20 || len(errs) > 0 {
			t.Errorf("%d of 20 sent, %v", sent, errs)
		}
		time.Sleep(2 * time.Minute)
		if _, errs := a.outcome(); len(errs) != 8 {
			t.Errorf("%d of 8 messages that nobody took have failed", len(errs))
		}
		a.close()
		b.close()
	})
}

// deaf is a provider whose channels fail three times to fetch events.
type deaf struct{ verbs.Provider }

func (p deaf) OpenChannel() (verbs.Channel, error) {
	ch, err := p.Provider.OpenChannel()
	return &deafChannel{ch, 3}, err
}

type deafChannel struct {
	verbs.Channel
	times int
}

func (ch *deafChannel) Events(ev []verbs.Event) (int, error) {
	if ch.times > 0 {
		ch.times--
		return 0, syscall.ENOMEM
	}
	return ch.Channel.Events(ev)
}

// TestEventsFail: connection events that could not be fetched are fetched later.
func TestEventsFail(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		hard := func(c *o2iblnd.Config) { c.Provider = deaf{c.Provider} }
		a, b := newStation(t, f, 0, hard), newStation(t, f, 1, hard)
		a.works(b)
		b.works(a)
		a.close()
		b.close()
	})
}

// TestDoubtEndsWithAConnection: given a peer in doubt with two connections, when it closes one of
// them, then PeerRestarted is called. That ends the doubt, so the other connection stays open.
func TestDoubtEndsWithAConnection(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, func(c *o2iblnd.Config) { c.ConnsPerPeer = 2 }), newPuppet(t, f, 7)
		p.answer = func(_ int, m *protocol.Message) (bool, []byte) { return true, encode(t, p.ack(m)) }
		a.send(p.nid, 1, 100)
		time.Sleep(5 * time.Second)
		f.Partition(a.host, p.host, fabric.Forward) // probes get no answer
		if !a.i.Probe(p.nid) {
			t.Error("no connection was probed")
		}
		synctest.Wait()
		if err := p.ids[0].Disconnect(); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		if got := a.told(); got.restarted != 1 || len(got.downs) > 0 {
			t.Errorf("the node was told of %d restarts, and of %v", got.restarted, got.downs)
		}
		if n := counter(a, "connections"); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		f.Heal(a.host, p.host, fabric.Forward)
		a.close()
	})
}

// TestDoubtAndTheOwnDevice: given a peer in doubt, when the device of this node fails, then no
// restart is reported, because the failure reveals nothing about the peer.
func TestDoubtAndTheOwnDevice(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		a.works(b)
		f.Partition(a.host, b.host, fabric.Forward) // probes get no answer
		if !a.i.Probe(nidOf(1)) {
			t.Error("no connection was probed")
		}
		synctest.Wait()
		a.host.Device(0).Inject(verbs.AsyncEvent{Kind: verbs.AsyncDeviceFatal})
		time.Sleep(5 * time.Second)
		f.Heal(a.host, b.host, fabric.Forward)
		a.works(b)
		b.works(a)
		if got := a.told(); got.restarted != 0 || len(got.downs) == 0 {
			t.Errorf("the node was told of %d restarts, and of %v", got.restarted, got.downs)
		}
		a.close()
		b.close()
	})
}

// TestClaimedNIDs: a departed peer that called from, or was called at, its NID's address is
// remembered as such, even if another host has claimed its NID since. A NID that was only claimed
// is remembered separately.
func TestClaimedNIDs(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b, c, p := newStation(t, f, 0, nil), newStation(t, f, 1, nil), newStation(t, f, 2, nil), newPuppet(t, f, 7)
		a.works(b)
		c.works(a)
		b.close()
		c.close()
		for _, k := range []int{1, 7, 8} { // the puppet's own node is 7
			p.call(nidOf(0).IP(), requestOf(t, k))
			time.Sleep(time.Second)
		}
		p.proc.Kill()
		time.Sleep(5 * time.Second)
		for k, want := range map[int]bool{1: true, 2: true, 7: true, 8: false} {
			if met, home := o2iblnd.RecallDeparted(a.i, nidOf(k)); !met || home != want {
				t.Errorf("node %d: met %v, at home %v, want %v", k, met, home, want)
			}
		}
		a.close()
	})
}
