package mpilnd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// stage is an interface at rank 0, and a puppet at rank 1, which is the test itself.
type stage struct {
	*testing.T
	job   *fake.Job
	d     *Driver
	i     lnd.Interface
	upper *recorder
	run   error  // the result of Driver.Run, when it has returned
	after func() // called in the goroutine of Run when it has returned

	mpi      boundary.MPI // of the puppet
	comm     boundary.Comm
	id       uint64
	done     map[uint64]boundary.Done
	buf      []byte // of the receive for the next short message
	short    uint64 // its ID
	link     uint32 // number of the puppet's link
	driver   uint32 // number of the driver's link
	sequence uint32
}

// play runs f in a bubble. MPI copies no payload, so a send is incomplete until the peer receives it.
func play(t *testing.T, o fake.Options, change func(c *Config), f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, job: fake.New(2, o), upper: &recorder{}, done: make(map[uint64]boundary.Done), link: 1}
		var running sync.WaitGroup
		opened := make(chan *Driver)
		running.Go(func() {
			comm, err := s.job.Rank(0).World()
			if err != nil {
				t.Error(err)
			}
			c := DefaultConfig()
			c.MPI, c.Comms, c.Peers = s.job.Rank(0), []boundary.Comm{comm}, ranks(2)
			if change != nil {
				change(&c)
			}
			d, err := New(c)
			if err != nil {
				t.Error(err)
			}
			opened <- d
			if s.run = d.Run(); s.after != nil {
				s.after()
			}
		})
		s.mpi = s.job.Rank(1)
		var err error
		if s.comm, err = s.mpi.World(); err != nil {
			t.Fatal(err)
		}
		s.d = <-opened
		if s.i, err = s.d.Open(t.Context(), lnd.Config{NID: nid(0), Upper: s.upper}); err != nil {
			t.Fatal(err)
		}
		s.upper.i = s.i
		defer func() {
			if err := s.i.Close(context.Background()); err != nil && !errors.Is(err, lnd.ErrClosed) {
				t.Error(err)
			}
			s.d.Close()
			running.Wait()
			if n := s.d.requests.busy(); n != s.job.Requests(0) {
				t.Errorf("the driver knows of %d requests, MPI of %d", n, s.job.Requests(0))
			}
		}()
		s.post()
		f(s)
	})
}

// post posts the receive for the next short message.
func (s *stage) post() {
	s.buf = make([]byte, 1<<20)
	s.short = s.receive(protocol.ShortTag, s.buf)
}

// receive posts a receive from the driver, and returns its ID.
func (s *stage) receive(tag int, b []byte) uint64 {
	s.Helper()
	s.id++
	if err := s.comm.Receive(0, tag, b, s.id); err != nil {
		s.Fatal(err)
	}
	return s.id
}

// write sends bytes to the driver, and returns the ID of the send.
func (s *stage) write(tag int, b []byte) uint64 {
	s.Helper()
	s.id++
	if err := s.comm.Send(0, tag, b, s.id); err != nil {
		s.Fatal(err)
	}
	return s.id
}

// await waits for a request. It returns false if the request is not complete after a second.
func (s *stage) await(id uint64) (boundary.Done, bool) {
	s.Helper()
	for end := time.Now().Add(time.Second); ; {
		var done [1]boundary.Done
		if d, ok := s.done[id]; ok {
			return d, true
		}
		n, err := s.mpi.Poll(done[:], time.Until(end))
		if err != nil {
			s.Fatal(err)
		}
		if n == 0 {
			return boundary.Done{}, false
		}
		s.done[done[0].ID] = done[0]
	}
}

// next returns the next short message of the driver, which must have the given type.
func (s *stage) next(want protocol.Type) protocol.Message {
	s.Helper()
	d, ok := s.await(s.short)
	if !ok {
		s.Fatalf("no message comes; want %s", want)
	}
	var m protocol.Message
	if err := m.Decode(s.buf[:d.Length]); err != nil {
		s.Fatal(err)
	}
	s.post()
	if m.Type != want {
		s.Fatalf("%+v, want %s", m, want)
	}
	return m
}

// nothing checks that the driver sends no short message for a second, except probes.
func (s *stage) nothing() {
	s.Helper()
	for {
		d, ok := s.await(s.short)
		if !ok {
			return
		}
		var m protocol.Message
		if err := m.Decode(s.buf[:d.Length]); err != nil || m.Type != protocol.Probe {
			s.Fatalf("%+v, %v", m, err)
		}
		s.post()
	}
}

// send sends a short message on the puppet's link.
func (s *stage) send(m protocol.Message) {
	s.Helper()
	m.From, m.To = s.link, s.driver
	if m.Sequence == 0 {
		m.Sequence = s.sequence
		s.sequence++
	}
	if m.Type == protocol.Query || m.Type == protocol.Reply || m.Type == protocol.Bye {
		if m.Block == (protocol.Block{}) {
			m.Block = s.block()
		}
	}
	s.write(protocol.ShortTag, append(m.Append(nil), m.Payload...))
}

// block is the puppet's.
func (s *stage) block() protocol.Block {
	return protocol.Block{
		Min: 1, Max: 1, ShortMax: 4096, Credits: 4, MaxPayload: lnet.MTU, Features: protocol.FeatureGet,
		NID: nid(1), PID: lnet.PIDLustre, Incarnation: 7,
	}
}

// open opens a link: the puppet calls.
func (s *stage) open() {
	s.Helper()
	s.send(protocol.Message{Type: protocol.Query})
	s.driver = s.next(protocol.Reply).From
	s.send(protocol.Message{Type: protocol.Reply})
	synctest.Wait()
}

// header returns the header of a message from one rank to the other.
func header(t lnet.MsgType, from, to, length int) lnet.Header {
	return lnet.Header{
		Type: t, Src: nid(from), Dest: nid(to), SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre, Handle: lnet.NoHandle,
		PayloadLength: uint32(length),
	}
}

// put makes the interface send a PUT whose payload has the given length, in one piece.
func (s *stage) put(length int) *sent {
	return s.transmit(&lnd.Tx{Header: header(lnet.MsgPut, 0, 1, length), Payload: memory.Of(pattern(length))})
}

// get makes the interface send a GET whose answer goes to a sink of the given pieces.
func (s *stage) get(pieces ...int) *sent {
	h := header(lnet.MsgGet, 0, 1, 0)
	var sink memory.Vector
	for _, n := range pieces {
		sink.Segments = append(sink.Segments, memory.Segment{Bytes: make([]byte, n)})
		sink.Length += n
	}
	h.Length = uint32(sink.Length)
	return s.transmit(&lnd.Tx{Header: h, Sink: sink})
}

func (s *stage) transmit(tx *lnd.Tx) *sent {
	m := &sent{tx: tx}
	tx.To, tx.Done = lnet.ProcessID{NID: nid(1), PID: lnet.PIDLustre}, m
	s.i.Send(tx)
	return m
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(k * 7)
	}
	return b
}

// sent is a message of the interface. Its fields may be read when the driver is idle.
type sent struct {
	tx    *lnd.Tx
	count int // completions
	err   error
}

func (m *sent) Sent(_ *lnd.Tx, err error) { m.count, m.err = m.count+1, err }

// state describes the completion of m.
func (m *sent) state() string {
	synctest.Wait()
	switch {
	case m.count > 1:
		return fmt.Sprintf("completed %d times", m.count)
	case m.count == 0:
		return "not complete"
	case m.err != nil:
		return lnd.StatusOf(m.err).String()
	}
	return "sent"
}

// recorder is an upper that records upcalls. place returns the placement of each message; if it is nil, messages are not placed.
type recorder struct {
	i     lnd.Interface
	place func(m *lnd.Rx) lnd.Placement

	arrived                               []*lnd.Rx
	received                              []error
	withdrawn, restarted, down, lost, off int
}

func (u *recorder) Arrived(m *lnd.Rx) error {
	u.arrived = append(u.arrived, m)
	if u.place != nil {
		u.i.Receive(m, u.place(m))
	}
	return nil
}
func (u *recorder) Received(_ *lnd.Rx, err error)   { u.received = append(u.received, err) }
func (u *recorder) Withdrawn(*lnd.Rx)               { u.withdrawn++ }
func (u *recorder) PeerRestarted(lnet.NID)          { u.restarted++ }
func (u *recorder) PeerDown(lnd.PeerDown)           { u.down++ }
func (u *recorder) ConnectionsLost(lnet.NID)        { u.lost++ }
func (u *recorder) PeerStalled(lnet.NID, time.Time) {}
func (u *recorder) LNDTimeout() time.Duration       { return 10 * time.Second }
func (u *recorder) Vouched(lnet.NID) bool           { return false }
func (u *recorder) LinkChanged(lnd.LinkState)       { u.off++ }
