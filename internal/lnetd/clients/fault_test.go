package clients

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// ringsMapped returns the addresses at which this process has ring files mapped.
func ringsMapped(t *testing.T) map[uintptr]uintptr {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[uintptr]uintptr)
	for line := range strings.Lines(string(maps)) {
		var begin, end uintptr
		if !strings.Contains(line, "/memfd:lnetd-ring") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
			t.Fatal(err)
		}
		all[begin] = end - begin
	}
	return all
}

// loseRing simulates a ring file without pages: it replaces the mappings that lnetd made after before
// with an empty file.
func loseRing(t *testing.T, before map[uintptr]uintptr) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lost := 0
	for begin, size := range ringsMapped(t) {
		if before[begin] != 0 {
			continue
		}
		lost++
		// The address is that of a mapping outside of Go's memory.
		at := *(*unsafe.Pointer)(unsafe.Pointer(&begin))
		if _, err := unix.MmapPtr(int(f.Fd()), 0, at, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			t.Fatal(err)
		}
	}
	if lost != 1 {
		t.Fatalf("%d rings", lost)
	}
}

// A client whose ring file has lost its pages is disconnected, whether lnetd reads submissions or writes
// completions at that moment. Other clients notice nothing.
//
// transport 9.9 (8)
func TestLostRing(t *testing.T) {
	asked := func(tm *tm, r protocol.Request) {
		if _, _, err := tm.client.execute(r, -1); !errors.Is(err, syscall.EFAULT) {
			t.Errorf("%T: %v", r, err)
		}
	}
	for name, touch := range map[string]func(t *testing.T, eventfd int, tm *tm){
		"TMStop": func(_ *testing.T, _ int, tm *tm) { asked(tm, &protocol.TMStop{Handle: tm.handle}) },
		"BufDeregister": func(t *testing.T, _ int, tm *tm) {
			b := &buffer{core: forgotten{}}
			if err := tm.client.charge(b.charge()); err != nil {
				t.Fatal(err)
			}
			tm.client.buffers.add(b)
			asked(tm, &protocol.BufDeregister{Index: 0, Generation: 1})
		},
		"Submissions": func(t *testing.T, eventfd int, _ *tm) {
			if _, err := unix.Write(eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
		},
		"Tell": func(_ *testing.T, _ int, tm *tm) { tm.PushTM(transport.Completion{Err: syscall.ENOBUFS}) },
		"Completion": func(_ *testing.T, _ int, tm *tm) {
			b := &buffer{}
			b.owner.Store(tm)
			tm.mu.Lock()
			tm.underWay++
			tm.depth[0]++
			tm.mu.Unlock()
			tm.finish(b, &shm.Completion{Final: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			other := w.one(8, 16)
			before := ringsMapped(t)
			p := w.join()
			var reply protocol.TMStartReply
			fds, err := p.request(&protocol.TMStart{NID: home, PID: other.tm.at.PID, Portal: 34, TMID: 7, Completions: 16}, &reply)
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(fds)
			c := w.client(p)
			tm, err := c.tm(reply.Handle)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it sleeps", func() bool { return tm.info().Waits == 1 })
			loseRing(t, before)
			tm.info()
			touch(t, fds[1], tm)
			p.cut(syscall.EFAULT, "the client removed a page of the ring file")
			eventually(t, "it is gone", func() bool { return len(w.server.Clients()) == 1 })
			other.tm.submit(good(other.buffer, 1, other.tm.at)[shm.OpMsgSend])
			if c := other.tm.next(); !c.Final {
				t.Errorf("%+v", c)
			}
		})
	}
}

// forgotten is a buffer that can always be deregistered.
type forgotten struct{ transport.CoreBuffer }

func (forgotten) Deregister() error { return nil }

// client returns lnetd's side of a peer.
func (w *world) client(p *peer) *client {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return w.server.clients[p.hello.Connection]
}

// A buffer belongs to its client again before the client can read the completion, because the client may
// then start another operation, at another TM, or deregister the buffer.
func TestBufferIsFreeBeforeItsCompletion(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 4)
	c := w.client(o.peer)
	tm, err := c.tm(o.tm.handle)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.buffers.find(o.buffer.Index, o.buffer.Generation)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(1000) {
		tm.mu.Lock()
		tm.underWay++
		tm.depth[b.queue]++
		b.owner.Store(tm)
		tm.mu.Unlock()
		go tm.Push(transport.Completion{Token: b, Sequence: i, Final: true})
		for !o.tm.Completions.Pending() {
			runtime.Gosched()
		}
		if b.owner.Load() != nil {
			t.Fatal("the completion was written while the operation had the buffer")
		}
		o.tm.next()
	}
}

// Submissions without effect are read at a limited rate, and do not delay other clients.
//
// transport 9.9 (10)
func TestFloodOfNOPs(t *testing.T) {
	w := newWorld(t, nil)
	other := w.one(8, 64)
	began := time.Now()
	var floods []*ring
	for id := range uint32(4) {
		floods = append(floods, w.join().start(34, 20+id, 256))
	}
	flood := func() {
		for _, f := range floods {
			for {
				ok, err := f.Submissions.Put(&shm.Submission{Opcode: shm.OpNop})
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
			}
			f.Submissions.Publish()
			f.Submissions.Ring()
		}
	}
	for n := range uint32(300) {
		flood()
		other.tm.submit(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, other.buffer, n),
			of(shm.Submission{Opcode: shm.OpCancel}, other.buffer, n))
		if c := other.tm.next(); c.Errno != syscall.ECANCELED {
			t.Fatalf("%+v", c)
		}
	}
	// A round may end one entry short of a pause, and the next round is long.
	eventually(t, "all were read once", func() bool {
		for _, i := range w.server.Clients() {
			if i.TMs[0].Submissions < 600 {
				return false
			}
		}
		return true
	})
	for _, i := range w.server.Clients() {
		most := uint64(2*mostIneffective) * uint64(2+time.Since(began)/ineffectivePause)
		if n := i.TMs[0].Submissions; i.TMs[0].Address.TMID >= 20 && n > most {
			t.Errorf("%d NOPs of a flood were read, at most %d should have been", n, most)
		}
	}
}

// Requests behind submissions do not make lnetd read submissions without effect faster.
//
// transport 9.9 (10)
func TestFloodBehindRequests(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 4096)
	began := time.Now()
	for range 20 {
		for range 4096 {
			if ok, err := o.tm.Submissions.Put(&shm.Submission{Opcode: shm.OpNop}); !ok || err != nil {
				break
			}
		}
		o.tm.Submissions.Publish()
		b := o.register(protocol.Range{Area: o.memory.id, Length: 1})
		o.must(&protocol.BufDeregister{Index: b.Index, Generation: b.Generation}, &protocol.Empty{})
		o.refused(&protocol.BufDeregister{Index: 99, Generation: 1}, syscall.EBADR)
	}
	most := uint64(2*mostIneffective) * uint64(2+time.Since(began)/ineffectivePause)
	if n := w.server.Clients()[0].TMs[0].Submissions; n > most {
		t.Errorf("%d NOPs were read, at most %d should have been", n, most)
	}
}

// Each operation offsets one submission without effect.
func TestIneffectiveSubmissions(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	tm, err := w.client(o.peer).tm(o.tm.handle)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint32(300) {
		o.tm.submit(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, o.buffer, n),
			of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, n), of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, n))
		o.tm.next()
	}
	tm.stopRun()
	if tm.ineffective > 0 {
		t.Errorf("%d submissions in vain", tm.ineffective)
	}
}

// A refused request, with a descriptor or with a missing one, leaves no descriptor open.
//
// transport 9.3, 9.8
func TestDescriptorsOfRefusals(t *testing.T) {
	page := int64(os.Getpagesize())
	core := newSlowCore()
	w := newWorld(t, func(c *Config) {
		mine(Quotas{Areas: 2, Bytes: 4 * page, TMs: 2, RingEntries: 64}, Quotas{})(c)
		c.Core = core
	})
	p := w.join()
	p.share(int(page))
	taken := p.start(34, 7, 16)
	add := func(size int64, fd int) error {
		_, err := p.request(&protocol.AreaAdd{Size: uint64(size)}, &protocol.AreaAddReply{}, fd)
		return err
	}
	sound, weak, hard := memfd(t, page, unix.F_SEAL_SHRINK), memfd(t, page, 0), memfd(t, page, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE)
	start := func(s protocol.TMStart) error {
		fds, err := p.request(&s, &protocol.TMStartReply{})
		closeAll(fds)
		return err
	}
	good := protocol.TMStart{NID: home, PID: taken.at.PID, Portal: 34, TMID: 8, Completions: 16}
	with := func(change func(s *protocol.TMStart)) func() error {
		s := good
		change(&s)
		return func() error { return start(s) }
	}
	cases := map[string]struct {
		ask  func() error
		want syscall.Errno
	}{
		"bytes":   {func() error { return add(8*page, sound) }, syscall.EDQUOT},
		"seals":   {func() error { return add(page, weak) }, syscall.EPERM},
		"sealed":  {func() error { return add(page, hard) }, syscall.EPERM},
		"size":    {func() error { return add(2*page, sound) }, syscall.EINVAL},
		"portal":  {with(func(s *protocol.TMStart) { s.Portal = 99 }), syscall.EINVAL},
		"entries": {with(func(s *protocol.TMStart) { s.Completions = 64 }), syscall.EDQUOT},
		"address": {with(func(s *protocol.TMStart) { s.TMID = 7 }), syscall.EADDRINUSE},
		"PID":     {with(func(s *protocol.TMStart) { s.PID = 1 }), syscall.ENOENT},
		"Core": {func() error {
			core.slow.refuse.Store(true)
			defer core.slow.refuse.Store(false)
			return add(page, sound)
		}, syscall.ENOMEM},
	}
	for name, c := range cases {
		before := held(t)
		for range 20 { // more than other goroutines may be about to close
			if err := c.ask(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if now := held(t); now.descriptors > before.descriptors || now.mappings > before.mappings {
			t.Errorf("%s: it has %+v, and had %+v", name, now, before)
		}
	}
	w.charged(p, amounts{ofAreas: 1, ofBytes: page, ofTMs: 1, ofEntries: 16})
}
