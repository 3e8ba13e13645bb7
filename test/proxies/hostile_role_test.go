package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// hostileKinds are the ways of doing harm, by name. Each function makes one attempt. It returns an error if lnetd
// has reacted in another way than it must.
var hostileKinds = map[string]func(h *hostile) error{
	"random reports":    (*hostile).randomReports,
	"scribbled rings":   (*hostile).scribble,
	"punched holes":     (*hostile).punch,
	"bells":             (*hostile).bells,
	"unread orders":     (*hostile).readNothing,
	"withheld payloads": (*hostile).withhold,
	"all PIDs":          (*hostile).takePIDs,
	"reports at leave":  (*hostile).reportAndLeave,
	"garbage records":   (*hostile).garbage,
	"descriptors":       (*hostile).descriptors,
	"flood of calls":    (*hostile).calls,
	"silent callers":    (*hostile).silence,
}

// hostile is a proxy that does harm.
type hostile struct {
	ctx    context.Context
	order  order
	nid    lnet.NID // of the NI that it attaches to
	pid    lnet.PID // that it owns, and that its peers have
	random *rand.Rand
	report hostileReport
}

// hostileReport is what a hostile proxy has done.
type hostileReport struct {
	Rounds  int
	Reports uint64 // that it put into rings
	Orders  uint64 // that it read
	// Reasons counts lnetd's reasons for ending the connection, without their numbers.
	Reasons map[string]int
}

// beHostile does what o.Kind says until the test ends it.
func beHostile(ctx context.Context, o order) error {
	nid, err := lnet.ParseNID(o.NID)
	if err != nil {
		return err
	}
	h := &hostile{
		ctx: ctx, order: o, nid: nid, pid: o.PID, random: rand.New(rand.NewPCG(o.Seed, 5)), report: hostileReport{Reasons: map[string]int{}},
	}
	fmt.Println("up")
	for first := true; first || ctx.Err() == nil; first = false {
		err := hostileKinds[o.Kind](h)
		if refused(err) && ctx.Err() != nil {
			break // it could not attach again before the end
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Kind, err)
		}
		h.report.Rounds++
	}
	process.Say("did", h.report)
	return nil
}

// numbers matches the parts in which reasons differ.
var numbers = regexp.MustCompile(`[0-9]\S*|"[^"]*"`)

// cut records why lnetd ended the connection. lnetd must have sent a reason.
func (h *hostile) cut(p *raw) error {
	text, err := p.reason()
	if err == nil {
		h.report.Reasons[numbers.ReplaceAllString(text, "#")]++
	}
	return err
}

// ended records why lnetd ended the connection, if it has.
func (h *hostile) ended(p *raw) error {
	if !p.over() {
		return nil
	}
	return h.cut(p)
}

// join attaches a proxy. It tries again while lnetd refuses, which it does for 10 s after it has cut off another proxy of
// the same user.
func (h *hostile) join() (*raw, error) {
	for {
		p, err := attach(h.order.Socket, h.nid)
		if err == nil || !refused(err) || h.ctx.Err() != nil {
			return p, err
		}
		rest(h.ctx, time.Millisecond)
	}
}

// up attaches a proxy that reports a working network. It owns its PID unless another one keeps that.
func (h *hostile) up() (*raw, error) {
	p, err := h.join()
	if err != nil {
		return nil, err
	}
	p.report(&protocol.Entry{Op: protocol.Link, Up: true})
	for range 20 {
		p.report(&protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: h.pid}})
		e, ok := p.order()
		for ; !ok || e.Op != protocol.PID; e, ok = p.order() {
			if p.over() {
				return p, nil
			}
			runtime.Gosched()
		}
		if e.Cause == protocol.CauseOther {
			break
		}
		rest(h.ctx, time.Millisecond)
	}
	return p, nil
}

// peer returns one of hostilePeers peers, most of the time. Honest peers have other addresses.
func (h *hostile) peer() lnet.ProcessID {
	k := h.random.IntN(hostilePeers)
	if h.random.IntN(16) == 0 {
		k = h.random.IntN(1 << 16)
	}
	return lnet.ProcessID{NID: hostilePeer(h.nid.Net(), k), PID: h.pid}
}

// arrival returns the report of an arrival that is valid, most of the time.
func (h *hostile) arrival(p *raw, handle uint64) *protocol.Entry {
	e := &protocol.Entry{Op: protocol.Arrived, Handle: handle, Peer: h.peer()}
	e.Header = lnet.Header{
		Type: lnet.MsgType(h.random.IntN(4)), Src: e.Peer.NID, SrcPID: e.Peer.PID, Dest: h.nid, DestPID: lnet.PIDLustre,
		Handle: lnet.NoHandle, Portal: []uint32{0, attackedPortal, attackedPortal, lazyPortal, 63}[h.random.IntN(5)], MatchBits: h.random.Uint64(),
	}
	if h.random.IntN(4) == 0 {
		e.Header.Handle = lnet.Handle{Interface: h.random.Uint64(), Object: h.random.Uint64N(100)}
		e.Header.Offset = h.random.Uint32()
	}
	switch e.Header.Type {
	case lnet.MsgPut, lnet.MsgReply:
		e.Header.PayloadLength = uint32(h.random.IntN(1 << h.random.IntN(18)))
	case lnet.MsgGet:
		e.Header.Length = uint32(h.random.IntN(1 << h.random.IntN(21)))
	}
	if n := int(e.Header.PayloadLength); n > 0 && h.random.IntN(2) == 0 {
		half := len(p.area) / 2
		e.HasPayload, e.Offset = true, uint64(half+h.random.IntN(half-n+1))
	}
	return e
}

// state is what a hostile proxy knows of its messages.
type state struct {
	sends, takes []protocol.Entry
	arrivals     map[uint64]bool
}

// read reads orders, up to a number.
func (h *hostile) read(p *raw, s *state, most int) {
	for range most {
		e, ok := p.order()
		if !ok {
			return
		}
		h.report.Orders++
		switch e.Op {
		case protocol.Send:
			s.sends = append(s.sends, e)
		case protocol.Take:
			s.takes = append(s.takes, e)
		case protocol.Done, protocol.Refuse:
			delete(s.arrivals, e.Handle)
		}
	}
}

// remove removes a random element, or the zero value if there is none.
func (h *hostile) remove(list *[]protocol.Entry) (e protocol.Entry) {
	if n := len(*list); n > 0 {
		k := h.random.IntN(n)
		e, (*list)[k] = (*list)[k], (*list)[n-1]
		*list = (*list)[:n-1]
	}
	return e
}

// next returns a report that mostly is valid now.
func (h *hostile) next(p *raw, s *state) *protocol.Entry {
	r := h.random
	switch r.IntN(20) {
	default:
		handle := uint64(r.IntN(64))
		if s.arrivals[handle] && r.IntN(50) > 0 {
			return &protocol.Entry{Op: protocol.Stalled, Peer: h.peer(), Time: uint64(r.IntN(2))}
		}
		s.arrivals[handle] = true
		return h.arrival(p, handle)
	case 0, 1, 2, 3, 4, 5:
		e := h.remove(&s.sends)
		if e.Op == 0 && r.IntN(500) > 0 {
			return &protocol.Entry{Op: protocol.Lost, Peer: h.peer()}
		}
		return h.withStatus(&protocol.Entry{Op: protocol.Sent, Handle: e.Handle})
	case 6, 7, 8:
		e := h.remove(&s.takes)
		if e.Op == 0 && r.IntN(200) > 0 {
			return &protocol.Entry{Op: protocol.Restarted, Peer: h.peer()}
		}
		payload := &protocol.Entry{Op: protocol.Payload, Handle: e.Handle}
		if r.IntN(4) == 0 {
			return h.withStatus(payload)
		}
		half := len(p.area) / 2
		payload.Length, payload.Offset = e.Length, uint64(half+r.IntN(half-int(e.Length)+1))
		return payload
	case 9:
		for handle := range s.arrivals {
			return &protocol.Entry{Op: protocol.Withdrawn, Handle: handle} // an error if the payload is ahead
		}
		return &protocol.Entry{Op: protocol.Withdrawn, Handle: r.Uint64()}
	case 10:
		return h.withStatus(&protocol.Entry{Op: protocol.PeerDown, Peer: h.peer(), Time: uint64(r.IntN(3))})
	case 11:
		return &protocol.Entry{Op: protocol.Link, Up: r.IntN(4) > 0}
	case 12:
		return &protocol.Entry{Op: protocol.AllocatePID}
	case 13:
		return &protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: h.pid + lnet.PID(r.IntN(3))}}
	}
}

// withStatus gives a report a random status.
func (h *hostile) withStatus(e *protocol.Entry) *protocol.Entry {
	if status := h.random.IntN(11); status > 0 {
		e.SetError(protocol.Cause(h.random.IntN(10)).Err("hostile"))
		e.Status = lnd.Status(status)
	} else if e.Op == protocol.PeerDown {
		e.Status = lnd.StatusRemoteError
	}
	return e
}

// randomReports reports in any order until lnetd ends the connection, and leaves sometimes.
func (h *hostile) randomReports() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	s := &state{arrivals: make(map[uint64]bool)}
	for range 20_000 {
		if h.ctx.Err() != nil {
			return nil
		}
		if h.random.IntN(3) == 0 {
			h.read(p, s, h.random.IntN(64))
		}
		if h.random.IntN(64) == 0 {
			runtime.Gosched()
		}
		if !p.report(h.next(p, s)) || p.over() {
			return h.ended(p)
		}
		h.report.Reports++
	}
	return nil
}

// scribble writes valid entries, and overwrites the ring file and the area with anything.
func (h *hostile) scribble() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	s := &state{arrivals: make(map[uint64]bool)}
	for range 2000 {
		for range h.random.IntN(8) {
			var b [protocol.EntrySize]byte
			h.next(p, s).Put(&b)
			if p.put(&b) {
				h.report.Reports++
			}
		}
		p.publish()
		for range h.random.IntN(16) { // while lnetd reads them
			switch h.random.IntN(16) {
			case 0:
				p.ring[64+h.random.IntN(len(p.ring)-64)] = byte(h.random.Uint32())
			case 1:
				p.area[h.random.IntN(len(p.area))]++
			case 2:
				p.word(64 * (1 + h.random.IntN(6))).Store(h.random.Uint32())
			default:
				p.ring[headerSize+h.random.IntN(len(p.ring)-headerSize)] ^= 1 << h.random.IntN(8)
			}
		}
		p.wake()
		if p.over() {
			return h.cut(p)
		}
	}
	return nil
}

// punch frees pages of the memory while messages use it, and tries to change the size of the memory.
func (h *hostile) punch() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	for _, fd := range []int{p.fds[fdRing], p.fds[fdArea]} {
		for _, size := range []int64{0, 4096, 1 << 30} {
			if err := unix.Ftruncate(fd, size); !errors.Is(err, syscall.EPERM) {
				return fmt.Errorf("ftruncate to %d: %w", size, err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("another seal: %w", err)
		}
	}
	s := &state{arrivals: make(map[uint64]bool)}
	for range 300 {
		fd, size := p.fds[fdArea], len(p.area)
		if h.random.IntN(8) == 0 {
			fd, size = p.fds[fdRing], len(p.ring)
		}
		from := h.random.IntN(size / 4096)
		const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		if err := unix.Fallocate(fd, hole, int64(from*4096), int64(1+h.random.IntN(8))*4096); err != nil {
			return err
		}
		h.read(p, s, 64)
		for range h.random.IntN(16) {
			if !p.report(h.next(p, s)) || p.over() {
				return h.ended(p)
			}
			h.report.Reports++
		}
	}
	return nil
}

// bells rings without need, fills the bells, changes their flags, and closes them.
func (h *hostile) bells() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	event, bell := p.fds[fdEvent], p.fds[fdBell]
	s := &state{arrivals: make(map[uint64]bool)}
	for k := range 20_000 {
		p.word(offCQSleeping).Store(1) // lnetd rings for each order
		p.word(offSQSleeping).Store(uint32(h.random.IntN(2)))
		p.wake()
		switch h.random.IntN(200) {
		case 0:
			_ = unix.SetNonblock(event, true)
			_, _ = unix.Write(event, []byte{0xfe, 255, 255, 255, 255, 255, 255, 255}) // the maximum
			_ = unix.SetNonblock(event, false)
		case 1:
			_ = unix.SetNonblock(bell, h.random.IntN(2) == 0)
		case 2:
			_ = unix.Sendto(bell, make([]byte, 1<<16), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		case 3:
			h.read(p, s, 64)
			p.report(h.next(p, s))
			h.report.Reports++
		}
		switch {
		case p.over():
			return h.cut(p)
		case k == 15_000 && h.random.IntN(2) == 0:
			_ = unix.Shutdown(bell, unix.SHUT_RDWR)
		case k == 15_000:
			_ = unix.Dup3(event, bell, unix.O_CLOEXEC) // closes the bell
		}
	}
	return nil
}

// readNothing owns a PID and reads no order until lnetd ends the connection, or nothing is to be read.
func (h *hostile) readNothing() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && h.ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if p.over() {
			return h.cut(p)
		}
	}
	return nil
}

// withhold announces as many arrivals as it may, answers no TAKE, and leaves after a while, or announces one too many.
func (h *hostile) withhold() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	for k := range uint64(p.n / 4) {
		e := h.arrival(p, k)
		e.Header.Type, e.Header.Portal = lnet.MsgPut, []uint32{attackedPortal, lazyPortal}[k%2]
		e.Header.Length = 0
		if e.Header.PayloadLength == 0 {
			e.Header.PayloadLength = 1
		}
		if k%4 == 1 { // one of lazyPortal
			e.HasPayload, e.Offset = true, uint64(len(p.area)/2)
		} else {
			e.HasPayload, e.Offset = false, 0
		}
		if !p.report(e) {
			break
		}
		h.report.Reports++
	}
	rest(h.ctx, 20*time.Millisecond)
	if h.random.IntN(2) == 0 {
		return nil
	}
	for k := range uint64(p.n) {
		if !p.report(h.arrival(p, uint64(p.n)+k)) || p.over() {
			return h.ended(p)
		}
	}
	return nil
}

// takePIDs takes all PIDs that it gets.
func (h *hostile) takePIDs() error {
	p, err := h.join()
	if err != nil {
		return err
	}
	defer p.close()
	for k := range 5000 {
		e := &protocol.Entry{Op: protocol.AllocatePID}
		if k%8 == 0 {
			e = &protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: lnet.PID(h.random.Uint32())}}
		}
		if !p.report(e) || p.over() {
			return h.ended(p)
		}
		h.report.Reports++
		for h.random.IntN(3) > 0 {
			if _, ok := p.order(); !ok {
				break
			}
			h.report.Orders++
		}
	}
	return nil
}

// reportAndLeave fills the ring with reports and leaves at once, in one of several ways.
func (h *hostile) reportAndLeave() error {
	p, err := h.up()
	if err != nil {
		return err
	}
	defer p.close()
	s := &state{arrivals: make(map[uint64]bool)}
	for range h.random.IntN(int(p.n)) {
		var b [protocol.EntrySize]byte
		h.next(p, s).Put(&b)
		if p.put(&b) {
			h.report.Reports++
		}
	}
	p.publish()
	switch h.random.IntN(3) {
	case 0:
		_ = p.conn.CloseWrite()
		for range 100 {
			if !p.report(h.next(p, s)) {
				break
			}
		}
	case 1:
		_, _ = p.conn.Write([]byte("a second record"))
		return h.cut(p)
	}
	return nil
}

// garbage sends records that are invalid.
func (h *hostile) garbage() error {
	conn, err := dial(h.order.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	b := (&protocol.Attach{Net: h.nid.Net(), NID: h.nid, Name: "garbage"}).Append(nil)
	switch h.random.IntN(3) {
	case 0:
		b = make([]byte, 1+h.random.IntN(2000))
		for k := range b {
			b[k] = byte(h.random.Uint32())
		}
	case 1:
		b[h.random.IntN(32)] ^= 1 << h.random.IntN(8)
	default:
		b = b[:h.random.IntN(len(b)-1)+1]
	}
	_, err = conn.Write(b)
	if refused(err) {
		return nil
	}
	answer := make([]byte, protocol.MaxRecord)
	n, err := conn.Read(answer)
	if n == 0 || err != nil {
		return nil // too many connect
	}
	_, err = protocol.DecodeAnswer(answer[:n])
	var f *protocol.Failure
	if err != nil && (!errors.As(err, &f) || f.Text == "") {
		return fmt.Errorf("% x became %w", b, err)
	}
	if f != nil {
		h.report.Reasons[f.Errno.Error()]++
	}
	return nil
}

// descriptors passes descriptors to lnetd, which must close them.
func (h *hostile) descriptors() error {
	conn, err := dial(h.order.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	f, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fd := int(f.Fd())
	record := (&protocol.Attach{Net: h.nid.Net(), NID: h.nid, Name: "generous"}).Append(nil)
	if h.random.IntN(2) == 0 {
		record = record[:8]
	}
	if _, _, err := conn.WriteMsgUnix(record, unix.UnixRights(fd, fd, fd, fd, fd, fd), nil); err != nil && !refused(err) {
		return err
	}
	b := make([]byte, protocol.MaxRecord)
	if _, err := conn.Read(b); err != nil && !errors.Is(err, io.EOF) && !refused(err) {
		return err
	}
	return nil
}

// calls connects as fast as possible.
func (h *hostile) calls() error {
	for range 50 {
		conn, err := dial(h.order.Socket)
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
	return nil
}

// silence holds many connections that send nothing, for a while.
func (h *hostile) silence() error {
	for range 100 {
		conn, err := dial(h.order.Socket)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
	}
	rest(h.ctx, 100*time.Millisecond)
	return nil
}
