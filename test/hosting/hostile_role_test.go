package hosting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// hostileKinds are the ways of doing harm, by name, and one that does none. Each function makes one
// attempt, after which lnetd must be as before. It returns nil if lnetd has reacted correctly.
var hostileKinds = map[string]func(h *hostile) error{
	"scribbled rings":     (*hostile).writeGarbage,
	"bad memory":          (*hostile).badMemory,
	"bad ranges":          (*hostile).badRanges,
	"punched bulk":        (*hostile).punchHoles,
	"garbage records":     (*hostile).garbage,
	"flood of requests":   (*hostile).requests,
	"flood of bells":      (*hostile).bells,
	"flood of calls":      (*hostile).calls,
	"silent callers":      (*hostile).holdIdleConnections,
	"overcommitted rings": (*hostile).overcommit,
	"honest bulk":         (*hostile).bulk,
}

// hostile is a client that does harm.
type hostile struct {
	order  order
	random *rand.Rand
	over   *atomic.Bool
	// reasons counts lnetd's reasons for closing the connection, without their numbers.
	reasons map[string]int
	rounds  int
}

// runHostile does what o.Kind says until the test ends it. "burn" only uses CPU time.
func runHostile(_ context.Context, o order, in *bufio.Scanner) error {
	var over atomic.Bool
	h := &hostile{order: o, random: rand.New(rand.NewPCG(o.Seed, 5)), over: &over, reasons: make(map[string]int)}
	fmt.Println("up")
	go func() {
		for in.Scan() {
		}
		over.Store(true)
	}()
	for first := true; first || !over.Load(); first = false {
		if o.Kind == "burn" {
			for range 1 << 16 {
				h.random.Uint64()
			}
			continue
		}
		if err := hostileKinds[o.Kind](h); err != nil {
			return fmt.Errorf("%s: %w", o.Kind, err)
		}
		h.rounds++
	}
	process.Say("did", map[string]any{"rounds": h.rounds, "reasons": h.reasons})
	return nil
}

// cut records why lnetd closed the connection. lnetd must have sent a reason.
func (h *hostile) cut(p *raw) error {
	text, err := p.reason()
	if err != nil {
		return err
	}
	h.reasons[numbers.ReplaceAllString(text, "#")]++
	return nil
}

// numbers matches the parts in which reasons differ.
var numbers = regexp.MustCompile(`[0-9]\S*`)

// writeGarbage makes valid requests and overwrites them with arbitrary bytes until lnetd closes the
// connection.
func (h *hostile) writeGarbage() error {
	p, err := rawJoin(h.order.Socket, "scribbler")
	if err != nil {
		return err
	}
	defer p.close()
	area, m, fd, err := p.share(1 << 16)
	if err != nil {
		return err
	}
	defer func() { _, _ = m.Close(), unix.Close(fd) }()
	b, err := p.register(area, 0, 1<<16)
	if err != nil {
		return err
	}
	r, err := p.start(h.order.At, 16)
	if err != nil {
		return err
	}
	defer r.close()
	s := shm.Submission{
		Opcode: shm.OpMsgRecv, Buffer: b.Index, Generation: b.Generation, MinReceive: 4096, MaxMessages: 1,
	}
	end := 4096 + r.submissions*shm.SubmissionSize
	for i := range 2000 {
		tail := (*atomic.Uint32)(wordAt(r.file, 64))
		for range h.random.IntN(8) {
			s.Opcode = shm.Opcode(1 + h.random.IntN(8))
			s.Operation = uint32(i)
			place := int(tail.Load()) & (r.submissions - 1)
			s.Put((*[shm.SubmissionSize]byte)(r.file[4096+place*shm.SubmissionSize:]))
			tail.Add(1)
		}
		if _, err := unix.Write(r.fds[1], []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil && !errors.Is(err, unix.EAGAIN) {
			return err
		}
		for range h.random.IntN(16) { // while lnetd reads them
			switch h.random.IntN(16) {
			case 0:
				r.file[64+h.random.IntN(len(r.file)-64)] = byte(h.random.Uint32())
			case 1:
				m.Bytes()[h.random.IntN(1<<16)]++
			case 2:
				(*atomic.Uint32)(wordAt(r.file, 64*(1+h.random.IntN(6)))).Store(h.random.Uint32())
			default:
				r.file[4096+h.random.IntN(end-4096)] ^= 1 << h.random.IntN(8)
			}
		}
		if pending(p.conn) {
			return h.cut(p)
		}
	}
	return nil // lnetd ignores it
}

// badMemory passes invalid memory to lnetd.
func (h *hostile) badMemory() error {
	p, err := rawJoin(h.order.Socket, "bad memory")
	if err != nil {
		return err
	}
	defer p.close()
	const size = 1 << 16
	for _, c := range []struct {
		name  string
		flags int
		seals int
		say   uint64
		want  syscall.Errno
	}{
		{"no seals", unix.MFD_ALLOW_SEALING, 0, size, syscall.EPERM},
		{"no sealing", 0, 0, size, syscall.EPERM},
		{"seal of growth alone", unix.MFD_ALLOW_SEALING, unix.F_SEAL_GROW, size, syscall.EPERM},
		{"no writing", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK | unix.F_SEAL_WRITE, size, syscall.EPERM},
		{"no writing later", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK | unix.F_SEAL_FUTURE_WRITE, size, syscall.EPERM},
		{"another size", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK, size + 4096, syscall.EINVAL},
		{"a smaller size", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK, size - 4096, syscall.EINVAL},
		{"no size", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK, 0, syscall.EINVAL},
		{"no number of pages", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK, size - 1, syscall.EINVAL},
		{"beyond 2^63", unix.MFD_ALLOW_SEALING, unix.F_SEAL_SHRINK, 1<<63 + size, syscall.EDQUOT},
	} {
		fd, err := unix.MemfdCreate("bad", c.flags|unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		err = unix.Ftruncate(fd, size)
		if err == nil && c.seals != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, c.seals)
		}
		if err == nil {
			err = p.refused(c.name, c.want, &protocol.AreaAdd{Size: c.say}, fd)
		}
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return h.noMemory(p)
}

// noMemory passes other descriptors, none, and too many.
func (h *hostile) noMemory(p *raw) error {
	zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = zero.Close() }()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer closeAll(pipe[:])
	if err := p.refused("/dev/zero", syscall.EINVAL, &protocol.AreaAdd{Size: 4096}, int(zero.Fd())); err != nil {
		return err
	}
	m, fd, err := shared.Create("bad", 4096)
	if err != nil {
		return err
	}
	defer func() { _, _ = m.Close(), unix.Close(fd) }()
	only, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err
	}
	defer func() { _ = only.Close() }()
	if err := p.refused("for reading alone", syscall.EACCES, &protocol.AreaAdd{Size: 4096}, int(only.Fd())); err != nil {
		return err
	}
	for _, fds := range [][]int{nil, {fd, fd}, {fd, fd, fd, fd, fd, fd, fd, fd, fd, fd, fd, fd}} {
		q, err := rawJoin(h.order.Socket, "bad descriptors")
		if err != nil {
			return err
		}
		record, err := protocol.AppendRequest(nil, 7, &protocol.AreaAdd{Size: 4096})
		if err == nil {
			err = q.write(record, fds...)
		}
		if err == nil {
			err = h.cut(q)
		}
		q.close()
		if err != nil {
			return fmt.Errorf("%d descriptors: %w", len(fds), err)
		}
	}
	return nil
}

// badRanges registers ranges outside of its areas.
func (h *hostile) badRanges() error {
	p, err := rawJoin(h.order.Socket, "bad ranges")
	if err != nil {
		return err
	}
	defer p.close()
	area, m, fd, err := p.share(1 << 16)
	if err != nil {
		return err
	}
	defer func() { _, _ = m.Close(), unix.Close(fd) }()
	many := make([]protocol.Range, 257)
	for i := range many {
		many[i] = protocol.Range{Area: area, Length: 1}
	}
	for _, c := range []struct {
		name   string
		ranges []protocol.Range
		want   syscall.Errno
	}{
		{"behind the area", []protocol.Range{{Area: area, Length: 4096, Offset: 1 << 16}}, syscall.EINVAL},
		{"across its end", []protocol.Range{{Area: area, Length: 4096, Offset: 1<<16 - 4095}}, syscall.EINVAL},
		{"offset that wraps", []protocol.Range{{Area: area, Length: 4096, Offset: ^uint64(0) - 4095}}, syscall.EINVAL},
		{"a negative offset", []protocol.Range{{Area: area, Length: 4096, Offset: 1 << 63}}, syscall.EINVAL},
		{"no bytes", []protocol.Range{{Area: area}}, syscall.EINVAL},
		{"a long range", []protocol.Range{{Area: area, Length: 4097}}, syscall.EINVAL},
		{"an area that there is not", []protocol.Range{{Area: area + 1, Length: 1}}, syscall.EBADR},
		{"the last area", []protocol.Range{{Area: ^uint32(0), Length: 1}}, syscall.EBADR},
		{"too many", many, syscall.EFBIG},
	} {
		if err := p.refused(c.name, c.want, &protocol.BufRegister{Ranges: c.ranges}); err != nil {
			return err
		}
	}
	return nil
}

// garbage sends invalid records.
func (h *hostile) garbage() error {
	p, err := rawDial(h.order.Socket)
	if err != nil {
		return err
	}
	defer p.close()
	b, err := protocol.AppendRequest(nil, 1, &protocol.Hello{Lowest: 1, Highest: 1, Program: "garbage"})
	if err != nil {
		return err
	}
	switch h.random.IntN(3) {
	case 0:
		b = make([]byte, 1+h.random.IntN(2000))
		for i := range b {
			b[i] = byte(h.random.Uint32())
		}
	case 1:
		b[h.random.IntN(24)] ^= 0x81
	default:
		b = b[:h.random.IntN(len(b)-1)+1]
	}
	if err := p.write(b); err != nil {
		return err
	}
	reply, _, _, err := p.read()
	if err == nil && reply.Status == 0 {
		// The change had no effect, for example in the sequence number.
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if p.cutOff == "" {
		p.close()
		return nil // an error of HELLO, with a text
	}
	h.reasons[numbers.ReplaceAllString(p.cutOff, "#")]++
	return nil
}

// requests sends requests as fast as possible for a while.
func (h *hostile) requests() error {
	p, err := rawJoin(h.order.Socket, "flood of requests")
	if err != nil {
		return err
	}
	defer p.close()
	data := make([]byte, 16000)
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		if err := p.ask(&protocol.Nop{Data: data}, &protocol.Nop{}); err != nil {
			return err
		}
	}
	return nil
}

// calls connects as fast as possible.
func (h *hostile) calls() error {
	for range 50 {
		p, err := rawDial(h.order.Socket)
		if err != nil {
			return err
		}
		p.close()
	}
	return nil
}

// holdIdleConnections holds many idle connections for a while.
func (h *hostile) holdIdleConnections() error {
	var all []*raw
	for range 500 {
		p, err := rawDial(h.order.Socket)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	for range 200 {
		if !h.over.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	for _, p := range all {
		p.close()
	}
	return nil
}

// bells wakes lnetd without submissions, and with NOPs, as fast as possible.
func (h *hostile) bells() error {
	p, err := rawJoin(h.order.Socket, "flood of bells")
	if err != nil {
		return err
	}
	defer p.close()
	r, err := p.start(h.order.At, 1024)
	if err != nil {
		return err
	}
	defer r.close()
	s, one := shm.Submission{Opcode: shm.OpNop}, []byte{1, 0, 0, 0, 0, 0, 0, 0}
	tail, head := (*atomic.Uint32)(wordAt(r.file, 64)), (*atomic.Uint32)(wordAt(r.file, 128))
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		for int(tail.Load()-head.Load()) < r.submissions {
			place := int(tail.Load()) & (r.submissions - 1)
			s.Put((*[shm.SubmissionSize]byte)(r.file[4096+place*shm.SubmissionSize:]))
			tail.Add(1)
		}
		if _, err := unix.Write(r.fds[1], one); err != nil && !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	return nil
}

// pending reports whether there is data to read, or the end of the stream.
func pending(conn interface {
	SyscallConn() (syscall.RawConn, error)
}) (is bool) {
	c, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	if c.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		is = n > 0 && err == nil
	}) != nil {
		return true
	}
	return is
}

// wordAt returns a word of the ring file that both sides use.
func wordAt(file []byte, at int) unsafe.Pointer { return unsafe.Pointer(&file[at]) }
