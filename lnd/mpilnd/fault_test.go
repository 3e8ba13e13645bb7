package mpilnd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// A request of MPI that fails is passed to the program's hook, ends the link with its peer, and fails its message. The
// peer gets a BYE. Later messages use a new link.
//
// MPI-3, MPI-4
func TestFailedRequest(t *testing.T) {
	for _, length := range []int{10, 10_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			var faults []error
			hook := func(c *Config) { c.Fault = func(err error) { faults = append(faults, err) } }
			play(t, fake.Options{}, hook, func(s *stage) {
				s.open()
				s.job.FailNext(0, 1)
				m := s.put(length)
				if got := m.state(); got != "local error" || !errors.Is(m.err, syscall.EIO) || !errors.Is(m.err, fake.ErrFailed) {
					t.Errorf("%s: %v", got, m.err)
				}
				if len(faults) != 1 || s.upper.down != 1 {
					t.Errorf("the hook was called with %v, PeerDown %d times", faults, s.upper.down)
				}
				for { // the message itself may come, or not
					d, ok := s.await(s.short)
					var b protocol.Message
					if err := b.Decode(s.buf[:d.Length]); !ok || err != nil {
						t.Fatalf("no BYE comes: %v", err)
					}
					if s.post(); b.Type == protocol.Bye && b.Reason == protocol.Failed {
						break
					}
				}
				s.link, s.sequence = 2, 0
				again := s.put(10)
				s.driver = s.next(protocol.Query).From
				s.send(protocol.Message{Type: protocol.Reply})
				s.next(protocol.Reply)
				s.next(protocol.Short)
				if got := again.state(); got != "sent" {
					t.Error(got)
				}
			})
		})
	}
}

// Requests that need a dead process never complete. Messages to it fail nevertheless, within the LND timeout, and the
// interface can be closed.
//
// MPI-3
func TestDeadPeer(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		large, get := s.put(10_000), s.get(5000)
		s.next(protocol.LargePut)
		s.next(protocol.GetOpt)
		s.job.Kill(1, fake.Hang)
		time.Sleep(15 * time.Second)
		if got := large.state() + ", " + get.state(); got != "network timeout, network timeout" || s.upper.down != 1 {
			t.Errorf("%s; PeerDown %d times", got, s.upper.down)
		}
		waits := s.put(10)
		time.Sleep(15 * time.Second)
		if got := waits.state(); got != "remote dropped" {
			t.Error(got)
		}
	})
}

// If MPI cannot be used any more, Run returns, and all messages fail, now and later.
//
// MPI-3, MPI-4
func TestBrokenMPI(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		messages := []*sent{s.put(10_000), s.get(5000), s.put(10)}
		synctest.Wait()
		s.job.Close()
		for _, m := range append(messages, s.put(10)) {
			if got := m.state(); got != "local error" && got != "sent" {
				t.Errorf("%s: %v", got, m.err)
			}
		}
		if s.run == nil || s.i.Link() != lnd.LinkDown || s.upper.off != 1 {
			t.Errorf("Run: %v; link %s, LinkChanged %d times", s.run, s.i.Link(), s.upper.off)
		}
		if _, err := s.d.Open(s.Context(), lnd.Config{NID: nid(0), Upper: s.upper}); err == nil {
			t.Error("another interface was opened")
		}
	})
}

// Each message completes exactly once, whichever requests fail.
//
// MPI-3
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			o := fake.Options{Seed: seed, Eager: 1000, Unexpected: 8, Delay: time.Millisecond, Shuffle: true, Fail: 0.01, MaxTag: 32767}
			j := newJob(t, 3, o)
			r := rand.New(rand.NewPCG(seed, 1))
			nodes := make([]*crowd, len(j.drivers))
			for k, d := range j.drivers {
				nodes[k] = &crowd{recorder: &recorder{}}
				i, err := d.Open(t.Context(), lnd.Config{NID: nid(k), Upper: nodes[k]})
				for n := 0; err != nil && n < 1000; n++ { // receives that could not be posted
					i, err = d.Open(t.Context(), lnd.Config{NID: nid(k), Upper: nodes[k]})
				}
				if err != nil {
					t.Fatal(err)
				}
				nodes[k].i = i
			}
			for range 200 {
				from, to := r.IntN(3), r.IntN(3)
				nodes[from].send(from, to, []int{0, 100, 10_000, 100_000}[r.IntN(4)])
				time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			for _, n := range nodes {
				if err := n.i.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			j.close()
			for k, n := range nodes {
				for _, m := range n.sent {
					if m.count != 1 {
						t.Errorf("seed %d: node %d: a message of %d bytes was completed %d times", seed, k, m.tx.Payload.Length, m.count)
					}
				}
			}
		})
	}
}

// crowd is an upper that keeps all messages, and sends.
type crowd struct {
	*recorder
	i    lnd.Interface
	sent []*sent
}

func (n *crowd) Arrived(m *lnd.Rx) error {
	n.i.Receive(m, lnd.Placement{
		Memory: memory.Of(make([]byte, m.Header.PayloadLength)), Reply: memory.Of(make([]byte, m.Header.Length/2)), Done: n,
	})
	return nil
}

func (n *crowd) Received(*lnd.Rx, error) {}

// send sends a PUT, or a GET whose sink has the length.
func (n *crowd) send(from, to, length int) {
	tx := &lnd.Tx{Header: header(lnet.MsgPut, from, to, length), Payload: memory.Of(pattern(length))}
	if length%3 == 1 {
		tx = &lnd.Tx{Header: header(lnet.MsgGet, from, to, 0), Sink: memory.Of(make([]byte, length))}
		tx.Header.Length = uint32(length)
	}
	m := &sent{tx: tx}
	tx.To, tx.Done = lnet.ProcessID{NID: nid(to), PID: lnet.PIDLustre}, m
	n.sent = append(n.sent, m)
	n.i.Send(tx)
}
