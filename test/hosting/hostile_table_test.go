package hosting

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// table is a raw client with an area and a TM.
type table struct {
	*raw
	area   uint32
	memory *shared.Memory
	fd     int // of the memory
	ring   *rawRing
	end    *shm.Client // a correct client of the ring
}

// connectAndStart connects and starts a TM. The caller closes the table.
func (h *hostile) connectAndStart(program string, size int) (t *table, err error) {
	p, err := rawJoin(h.order.Socket, program)
	if err != nil {
		return nil, err
	}
	t = &table{raw: p}
	if t.area, t.memory, t.fd, err = p.share(size); err != nil {
		p.close()
		return nil, err
	}
	if t.ring, err = p.start(h.order.At, 16); err == nil {
		t.end, err = t.ring.attach()
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *table) close() {
	t.raw.close()
	_, _ = t.memory.Close(), unix.Close(t.fd)
	if t.end != nil {
		_, _ = t.end.Close(), unix.Munmap(t.ring.file)
	}
}

// submit submits operations.
func (t *table) submit(all ...shm.Submission) error {
	for i := range all {
		if ok, err := t.end.Submissions.Put(&all[i]); !ok {
			return fmt.Errorf("submission %d does not fit: %w", i, err)
		}
	}
	t.end.Submissions.Publish()
	t.end.Submissions.Ring()
	return nil
}

// overcommit submits more than its credits, operations that are rejected, and never reads a completion.
func (h *hostile) overcommit() error {
	t, err := h.connectAndStart("overcommitted", 4096)
	if err != nil {
		return err
	}
	defer t.close()
	for !pending(t.conn) {
		// 16 are rejected, which fills the ring. No entry is left for the next one.
		b, err := t.register(t.area, 0, 4096)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			break
		}
		if err != nil {
			return err
		}
		if t.submit(shm.Submission{
			Opcode: shm.OpMsgRecv, Buffer: b.Index, Generation: b.Generation, Operation: 1, MinReceive: 8192, MaxMessages: 100,
		}) != nil {
			break
		}
		runtime.Gosched()
	}
	return h.cut(t.raw)
}

// bulk transfers as much bulk as punch does, but correctly. Its cost for other clients is the base
// for comparison.
func (h *hostile) bulk() error {
	return h.move("bulk", func(*table, *rand.Rand) { time.Sleep(time.Millisecond) })
}

// punchHoles frees pages of memory while they are being sent and filled as bulk.
func (h *hostile) punchHoles() error {
	return h.move("punched", func(t *table, r *rand.Rand) {
		const pages = 2 << 20 / 4096
		_ = unix.Fallocate(t.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(r.IntN(pages))*4096, 64<<10)
	})
}

// move transfers bulk and calls meanwhile repeatedly. It also tries to truncate the memory.
func (h *hostile) move(program string, meanwhile func(t *table, r *rand.Rand)) error {
	const size = 1 << 20
	t, err := h.connectAndStart(program, 2*size)
	if err != nil {
		return err
	}
	defer t.close()
	var bs [2]protocol.BufRegisterReply
	for i := range bs {
		if bs[i], err = t.register(t.area, i*size, size); err != nil {
			return err
		}
	}
	if err := unix.Ftruncate(t.fd, size); !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("the memory was cut off: %w", err)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		random := rand.New(rand.NewPCG(h.order.Seed, 6))
		for {
			select {
			case <-over:
				return
			default:
				meanwhile(t, random)
			}
		}
	}()
	defer func() { close(over); <-done }()
	for n := uint32(1); n <= 50; n++ {
		if err := t.exchange(bs, n, size); err != nil {
			return err
		}
	}
	return nil
}

// exchange transfers bulk from one buffer to the other, started by either end.
func (t *table) exchange(bs [2]protocol.BufRegisterReply, n, size uint32) error {
	at, bits := t.ring.at, uint64(transport.MakeMatchBits(t.ring.at.TMID, uint64(n)))
	passive := shm.Submission{
		Opcode: shm.OpPassiveSend, Buffer: bs[0].Index, Generation: bs[0].Generation, Operation: n, MatchBits: bits, Length: size,
	}
	active := shm.Submission{
		Opcode: shm.OpActiveRecv, Buffer: bs[1].Index, Generation: bs[1].Generation, Operation: n, MatchBits: bits, Length: size,
		Peer: at.NID, PID: at.PID, Portal: at.Portal, TMID: uint32(at.TMID),
	}
	if n%2 == 0 {
		passive.Opcode, active.Opcode, passive.Length = shm.OpPassiveRecv, shm.OpActiveSend, 0
	}
	if err := t.submit(passive, active); err != nil {
		return err
	}
	for range 2 {
		if err := t.nextGood(); err != nil {
			return err
		}
	}
	return nil
}

// nextGood waits for a completion, which must report success.
func (t *table) nextGood() error {
	c := &t.end.Completions
	for until := time.Now().Add(patience); time.Now().Before(until); {
		var d shm.Completion
		ok, err := c.Next(&d)
		switch {
		case err != nil:
			return err
		case ok && d.Errno != 0:
			return fmt.Errorf("%+v", d)
		case ok:
			c.Release()
			return nil
		}
		if err := c.Wait(until); err != nil {
			return err
		}
	}
	return errors.New("no completion")
}
