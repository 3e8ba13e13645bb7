package uplnd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/shared"
)

// fake is a proxy whose every step a test decides.
type fake struct {
	t    *testing.T
	conn *net.UnixConn
	ring *shared.Client
	area *shared.Memory
	half uint64 // where its half of the area begins
	// first is the handle of the first message that it was ordered to send.
	first uint64
}

var rings = shared.Format{Submission: protocol.EntrySize, Completion: protocol.EntrySize}

// request sends a record to an lnetd and returns the answer.
func request(socket string, record []byte) (*protocol.Attached, *net.UnixConn, []int, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err := conn.Write(record); err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	b, control := make([]byte, protocol.MaxRecord), make([]byte, unix.CmsgSpace(16))
	n, controls, _, _, err := conn.ReadMsgUnix(b, control)
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	a, err := protocol.DecodeAnswer(b[:n])
	if err != nil {
		return nil, nil, nil, errors.Join(err, conn.Close())
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil || len(messages) != 1 {
		return nil, nil, nil, errors.Join(fmt.Errorf("%d control messages: %w", len(messages), err), conn.Close())
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	return a, conn, fds, err
}

// attach attaches a fake to an NI.
func attach(t *testing.T, s *site, nid lnet.NID) *fake {
	t.Helper()
	a, conn, fds, err := request(s.socket, (&protocol.Attach{Net: nid.Net(), NID: nid, Name: "fake"}).Append(nil))
	if err != nil || len(fds) != 4 {
		t.Fatal(fds, err)
	}
	area, err := shared.Adopt(fds[3], int64(a.AreaSize))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := rings.Attach(shared.Files{Ring: fds[0], Submissions: fds[1], Completions: fds[2]})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, conn: conn, ring: ring, area: area, half: uint64(a.AreaSize / 2)}
	t.Cleanup(f.leave)
	return f
}

// leave closes the connection.
func (f *fake) leave() { _ = errors.Join(f.conn.Close(), f.ring.Close(), f.area.Close()) }

// raw puts a report of any bytes into the ring.
func (f *fake) raw(b *[protocol.EntrySize]byte) {
	for {
		if slot, _ := f.ring.Submissions.Slot(); slot != nil {
			copy(slot, b[:])
			break
		}
		time.Sleep(time.Millisecond)
	}
	f.ring.Submissions.Advance()
	f.ring.Submissions.Publish()
	f.ring.Submissions.Ring()
}

// report puts reports into the ring.
func (f *fake) report(list ...protocol.Entry) {
	for k := range list {
		var b [protocol.EntrySize]byte
		list[k].Put(&b)
		f.raw(&b)
	}
}

// order waits for the next order, which must be of a kind.
func (f *fake) order(want protocol.Op) protocol.Entry {
	f.t.Helper()
	for {
		var b [protocol.EntrySize]byte
		more, err := f.ring.Completions.Read(b[:])
		if err != nil {
			f.t.Fatal(err)
		}
		if !more {
			if err := f.ring.Completions.Wait(time.Now().Add(time.Minute)); err != nil {
				f.t.Fatalf("no %s: %v", want, err)
			}
			continue
		}
		f.ring.Completions.Release()
		var e protocol.Entry
		if err := e.DecodeOrder(&b); err != nil {
			f.t.Fatal(err)
		}
		if e.Op == protocol.Timeout && want != protocol.Timeout {
			continue
		}
		if e.Op != want {
			f.t.Fatalf("%s, want %s", e.Op, want)
		}
		return e
	}
}

// nothing checks that no order is in the ring.
func (f *fake) nothing() {
	f.t.Helper()
	var b [protocol.EntrySize]byte
	for {
		more, err := f.ring.Completions.Read(b[:])
		if err != nil {
			f.t.Fatal(err)
		}
		if !more {
			return
		}
		f.ring.Completions.Release()
		if op := protocol.Op(b[0]); op != protocol.Timeout {
			f.t.Fatalf("%s, want nothing", op)
		}
	}
}

// ready registers PIDs and reports that the network is up.
func (f *fake) ready(pids ...lnet.PID) {
	f.t.Helper()
	for _, pid := range pids {
		f.report(protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: pid}})
		if e := f.order(protocol.PID); e.Cause != protocol.CauseOther || e.Peer.PID != pid {
			f.t.Fatalf("PID %v: %+v", pid, e)
		}
	}
	f.report(protocol.Entry{Op: protocol.Link, Up: true})
}

// cutOff waits until lnetd has cut the fake off, and returns the reason.
func (f *fake) cutOff() error {
	f.t.Helper()
	b := make([]byte, protocol.MaxRecord)
	if err := f.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	n, err := f.conn.Read(b)
	if n == 0 {
		f.t.Fatalf("no reason: %v", err)
	}
	_, err = protocol.DecodeAnswer(b[:n])
	return err
}

// upper is a node that records everything.
type upper struct {
	mu      sync.Mutex
	changed sync.Cond
	events  []string
	held    []*lnd.Rx
	// sending and receiving are the numbers of messages that have not ended.
	sending, receiving int
	refuse             bool // an arrival is a protocol error
	hold               bool // arrivals are not placed
	iface              lnd.Interface
	memory             []byte // where payloads go
}

func newUpper() *upper {
	u := &upper{memory: make([]byte, lnet.MTU)}
	u.changed.L = &u.mu
	return u
}

func (u *upper) note(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events = append(u.events, fmt.Sprintf(format, args...))
	u.changed.Broadcast()
}

// awaitProxies waits until the NI has n proxies.
func (u *upper) awaitProxies(n uint64) {
	for u.iface.Counters()[0].Value != n {
		time.Sleep(time.Millisecond)
	}
}

// awaitEnds waits until all messages have ended.
func (u *upper) awaitEnds(t *testing.T, after string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		u.mu.Lock()
		sending, receiving := u.sending, u.receiving
		u.mu.Unlock()
		switch {
		case sending == 0 && receiving == 0:
			return
		case sending < 0, receiving < 0, time.Now().After(deadline):
			t.Fatalf("%s: %d messages to be sent and %d arrivals have not ended", after, sending, receiving)
		}
	}
}

// reset forgets all events.
func (u *upper) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events = nil
}

// set sets hold or refuse.
func (u *upper) set(field *bool, v bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*field = v
}

// await waits for an event, and removes it.
func (u *upper) await(t *testing.T, want string) {
	t.Helper()
	stop := context.AfterFunc(t.Context(), u.changed.Broadcast)
	defer stop()
	late := false
	timer := time.AfterFunc(time.Minute, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		late = true
		u.changed.Broadcast()
	})
	defer timer.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	for !slices.Contains(u.events, want) {
		if late {
			t.Fatalf("no %q among %q", want, u.events)
		}
		u.changed.Wait()
	}
	k := slices.Index(u.events, want)
	u.events = slices.Delete(u.events, k, k+1)
}

func (u *upper) Arrived(m *lnd.Rx) error {
	u.mu.Lock()
	refuse, hold := u.refuse, u.hold
	u.mu.Unlock()
	if refuse {
		return errors.New("refused")
	}
	u.count(&u.receiving, 1)
	if hold {
		u.mu.Lock()
		u.held = append(u.held, m)
		u.mu.Unlock()
		u.note("held")
		return nil
	}
	u.place(m)
	return nil
}

// count adds d to sending or receiving.
func (u *upper) count(field *int, d int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*field += d
}

// opened sets the interface. The race detector does not see that arrivals come later, through shared memory.
func (u *upper) opened(i lnd.Interface) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.iface = i
}

func (u *upper) place(m *lnd.Rx) {
	n := int(m.Header.PayloadLength)
	u.mu.Lock()
	i := u.iface
	u.mu.Unlock()
	i.Receive(m, lnd.Placement{Memory: memory.Of(u.memory[:n]), Done: u})
}

// placeHeld places what is held.
func (u *upper) placeHeld() {
	u.mu.Lock()
	held := u.held
	u.held = nil
	u.mu.Unlock()
	for _, m := range held {
		u.place(m)
	}
}

// placeNewest places the arrival that came last.
func (u *upper) placeNewest() {
	u.mu.Lock()
	m := u.held[len(u.held)-1]
	u.held = u.held[:len(u.held)-1]
	u.mu.Unlock()
	u.place(m)
}

func (u *upper) Received(m *lnd.Rx, err error) {
	u.count(&u.receiving, -1)
	u.note("received %d: %v", m.Header.PayloadLength, lnd.StatusOf(err))
}
func (u *upper) Sent(m *lnd.Tx, err error) {
	u.count(&u.sending, -1)
	u.note("sent %d: %v", m.Header.MatchBits, lnd.StatusOf(err))
}
func (u *upper) Withdrawn(m *lnd.Rx) {
	u.note("withdrawn")
	u.placeHeld()
}
func (u *upper) PeerDown(d lnd.PeerDown)                 { u.note("down %s: %v", d.Peer, lnd.StatusOf(d.Err)) }
func (u *upper) ConnectionsLost(peer lnet.NID)           { u.note("lost %s", peer) }
func (u *upper) PeerRestarted(peer lnet.NID)             { u.note("restarted %s", peer) }
func (u *upper) PeerStalled(peer lnet.NID, at time.Time) { u.note("stalled %s %v", peer, !at.IsZero()) }
func (u *upper) LinkChanged(s lnd.LinkState)             { u.note("link %s", s) }
func (u *upper) LNDTimeout() time.Duration               { return 0 }
func (u *upper) Vouched(lnet.NID) bool                   { return false }

// put sends a PUT with a number and a payload to a process.
func (u *upper) put(to lnet.ProcessID, number uint64, payload []byte) {
	u.send(to, number, payload, false)
}

func (u *upper) send(to lnet.ProcessID, number uint64, payload []byte, urgent bool) {
	u.count(&u.sending, 1)
	m := &lnd.Tx{To: to, Payload: memory.Of(payload), Urgent: urgent, Done: u}
	m.Header = lnet.Header{
		Type: lnet.MsgPut, Src: u.iface.NID(), SrcPID: lnet.PIDLustre, Dest: to.NID, DestPID: to.PID,
		PayloadLength: uint32(len(payload)), MatchBits: number, Handle: lnet.NoHandle,
	}
	u.iface.Send(m)
}

// openNI opens an NI of a site.
func openNI(t *testing.T, s *site, nid lnet.NID) *upper {
	t.Helper()
	u := newUpper()
	i, err := s.driver.Open(t.Context(), lnd.Config{NID: nid, Upper: u})
	if err != nil {
		t.Fatal(err)
	}
	u.opened(i)
	t.Cleanup(func() {
		if err := i.Close(context.Background()); err != nil && !errors.Is(err, lnd.ErrClosed) {
			t.Error(err)
		}
		s.close(t)
	})
	return u
}
