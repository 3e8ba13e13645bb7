package mpilnd

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
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

// Each message and each arrival completes exactly once, whichever requests fail, when links end, and whenever arrivals get
// their placements.
//
// MPI-3
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(testenv.Fewer(24)) {
		synctest.Test(t, func(t *testing.T) {
			o := fake.Options{Seed: seed, Eager: 1000 + int(seed%3)*200_000, Unexpected: 8, Delay: time.Millisecond, Shuffle: true, MaxTag: 3 + int(seed%5)*2}
			if seed%2 == 0 {
				o.Fail = 0.03
			}
			j := newJob(t, 3, o)
			r := rand.New(rand.NewPCG(seed, 1))
			nodes := make([]*crowd, len(j.drivers))
			for k, d := range j.drivers {
				nodes[k] = newCrowd(t, d, k, seed)
			}
			for range 300 {
				from, to := r.IntN(3), r.IntN(3)
				nodes[from].send(from, to, []int{0, 100, 10_000, 100_000}[r.IntN(4)])
				if r.IntN(30) == 0 {
					nodes[from].i.Disconnect(nid(to))
				}
				nodes[to].placeOne()
				time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			for _, n := range nodes {
				if err := n.i.Close(t.Context()); err != nil {
					t.Error(err)
				}
				for n.placeOne() {
				}
			}
			j.close()
			for k, n := range nodes {
				n.check(t, fmt.Sprintf("seed %d: node %d", seed, k))
			}
		})
	}
}

// crowd is an upper that sends, and gives placements now or later.
type crowd struct {
	*recorder
	i    lnd.Interface
	sent []*sent

	mu       sync.Mutex // guards the fields below
	random   *rand.Rand
	waiting  []*placing
	placings []*placing
}

// placing is an arrival, and counts its completions.
type placing struct {
	m      *lnd.Rx
	id     byte
	drop   bool
	memory []byte
	count  int
	wrong  bool // it has the payload of another message
}

func (p *placing) Received(_ *lnd.Rx, err error) {
	p.count++
	p.wrong = err == nil && !all(p.memory, p.id)
}

// all reports whether all bytes of b are v.
func all(b []byte, v byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != v }) }

// newCrowd opens the interface of a rank. If its receives cannot be posted, it tries again.
func newCrowd(t *testing.T, d *Driver, rank int, seed uint64) *crowd {
	n := &crowd{recorder: &recorder{}, random: rand.New(rand.NewPCG(seed, uint64(rank)))}
	for range 1000 {
		i, err := d.Open(t.Context(), lnd.Config{NID: nid(rank), Upper: n})
		if err == nil {
			n.i = i
			return n
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the interface cannot be opened")
	return nil
}

func (n *crowd) Arrived(m *lnd.Rx) error {
	n.mu.Lock()
	p := &placing{m: m, id: byte(m.Header.MatchBits), drop: n.random.IntN(4) == 0, memory: make([]byte, m.Header.PayloadLength)}
	n.placings = append(n.placings, p)
	later := n.random.IntN(2) == 0
	if later {
		n.waiting = append(n.waiting, p)
	}
	n.mu.Unlock()
	if !later {
		n.give(p)
	}
	return nil
}

// placeOne gives a placement that was delayed. It returns false if none was.
func (n *crowd) placeOne() bool {
	n.mu.Lock()
	if len(n.waiting) == 0 {
		n.mu.Unlock()
		return false
	}
	k := n.random.IntN(len(n.waiting))
	p := n.waiting[k]
	n.waiting = slices.Delete(n.waiting, k, k+1)
	n.mu.Unlock()
	n.give(p)
	return true
}

func (n *crowd) give(p *placing) {
	answer := bytes.Repeat([]byte{p.id}, int(p.m.Header.Length/2))
	place := lnd.Placement{Memory: memory.Of(p.memory), Reply: memory.Of(answer), Done: p}
	if p.drop {
		place = lnd.Placement{}
	}
	n.i.Receive(p.m, place)
}

// check checks that everything has completed as often as it must.
func (n *crowd) check(t *testing.T, what string) {
	t.Helper()
	for _, m := range n.sent {
		if m.count != 1 {
			t.Errorf("%s: a message of %d bytes was completed %d times", what, m.tx.Payload.Length, m.count)
		}
		if m.tx.Replied && !all(m.tx.Sink.Segments[0].Bytes[:m.tx.ReplyLength], byte(m.tx.Header.MatchBits)) {
			t.Errorf("%s: a GET has got the answer to another one", what)
		}
	}
	for _, p := range n.placings {
		if want := map[bool]int{true: 0, false: 1}[p.drop]; p.count != want {
			t.Errorf("%s: an arrival was completed %d times, want %d", what, p.count, want)
		}
		if p.wrong {
			t.Errorf("%s: an arrival of %d bytes has the payload of another message", what, len(p.memory))
		}
	}
}

// send sends a PUT, or a GET whose sink has the length.
func (n *crowd) send(from, to, length int) {
	id := byte(len(n.sent))
	tx := &lnd.Tx{Header: header(lnet.MsgPut, from, to, length), Payload: memory.Of(bytes.Repeat([]byte{id}, length))}
	if len(n.sent)%3 == 0 && length > 0 {
		tx = &lnd.Tx{Header: header(lnet.MsgGet, from, to, 0), Sink: memory.Of(make([]byte, length))}
		tx.Header.Length = uint32(length)
	}
	tx.Header.MatchBits = uint64(id)
	m := &sent{tx: tx}
	tx.To, tx.Done = lnet.ProcessID{NID: nid(to), PID: lnet.PIDLustre}, m
	n.sent = append(n.sent, m)
	n.i.Send(tx)
}
