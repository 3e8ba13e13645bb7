package clients

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// quietly writes submissions without waking lnetd.
func (r *ring) quietly(all ...shm.Submission) {
	r.peer.t.Helper()
	for i := range all {
		if ok, err := r.Submissions.Put(&all[i]); !ok {
			r.peer.t.Fatalf("submission %d does not fit: %v", i, err)
		}
	}
	r.Submissions.Publish()
}

// asleep waits until, for one TM of each client, lnetd sleeps.
func (w *world) asleep() {
	w.t.Helper()
	eventually(w.t, "lnetd sleeps", func() bool {
		for _, i := range w.server.Clients() {
			for _, tm := range i.TMs {
				if tm.Waits == 0 || tm.Waits == tm.BellReads {
					return false
				}
			}
		}
		return true
	})
}

// receives waits until the first TM of the only client has a MSG_RECV under way.
func (w *world) receives() {
	w.t.Helper()
	eventually(w.t, "it waits", func() bool { return w.server.Clients()[0].TMs[0].Queues[transport.MsgRecv].Depth == 1 })
}

// Submissions before TM_STOP are processed first, even if that takes more than one round. The TM stays if
// their operations are still under way.
//
// transport 9.1
func TestStopIsBehindSubmissions(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 128)
	w.asleep()
	nops := make([]shm.Submission, 2*mostIneffective-10)
	for i := range nops {
		nops[i].Opcode = shm.OpNop
	}
	o.tm.quietly(append(nops, good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv])...)
	o.refused(&protocol.TMStop{Handle: o.tm.handle}, syscall.EBUSY)
	o.tm.quietly(of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, 1))
	if err := o.ask(&protocol.TMStop{Handle: o.tm.handle}, &protocol.Counters{}); err != nil && !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	if c := o.tm.next(); c.Errno != syscall.ECANCELED || !c.Final || c.Rejected {
		t.Errorf("%+v", c)
	}
}

// A submission before BUF_DEREGISTER is processed first, at any TM. So the buffer is busy.
//
// transport 9.1
func TestDeregisterIsBehindSubmissions(t *testing.T) {
	w := newWorld(t, nil)
	o := w.one(7, 16)
	second := o.start(34, 8, 16)
	w.asleep()
	deregister := &protocol.BufDeregister{Index: o.buffer.Index, Generation: o.buffer.Generation}
	second.quietly(good(o.buffer, 1, second.at)[shm.OpMsgRecv])
	o.refused(deregister, syscall.EBUSY)
	second.submit(of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, 1))
	if c := second.next(); c.Errno != syscall.ECANCELED {
		t.Errorf("%+v", c)
	}
	second.quietly(of(shm.Submission{Opcode: shm.OpCancel}, o.buffer, 1))
	o.must(deregister, &protocol.Empty{})
}

// If a rule was broken before TM_STOP or BUF_DEREGISTER, the connection ends, and the request is not
// answered.
//
// transport 9.1, 9.9 (9)
func TestViolationBeforeARequest(t *testing.T) {
	for name, f := range map[string]func(o *one) protocol.Request{
		"stop":       func(o *one) protocol.Request { return &protocol.TMStop{Handle: o.tm.handle} },
		"deregister": func(o *one) protocol.Request { return &protocol.BufDeregister{Index: o.buffer.Index, Generation: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			o := w.one(7, 16)
			w.asleep()
			o.tm.quietly(shm.Submission{Opcode: shm.OpMsgRecv, Buffer: 9})
			if err := o.ask(f(o), &protocol.Empty{}); !errors.Is(err, io.EOF) {
				t.Errorf("answered: %v", err)
			}
			o.cut(syscall.EBADR, "TM at "+o.tm.at.String())
		})
	}
}

// now reads a record without waiting. It returns EAGAIN if there is no record.
func (p *peer) now() (n protocol.Notice, err error) {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	b, size := make([]byte, protocol.MaxRecord), 0
	if e := raw.Control(func(fd uintptr) { size, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT) }); e != nil {
		p.t.Fatal(e)
	}
	if err == nil && size == 0 {
		err = io.EOF
	}
	if err != nil {
		return n, err
	}
	h, body, err := protocol.DecodeReply(b[:size])
	if err == nil && h.Opcode == protocol.OpNotice {
		err = n.Decode(body)
	}
	return n, err
}

// When a client is disconnected, for any reason, it can read the reason before its first operation ends
// by that. When it has read to the end of file, all operations have ended.
//
// transport 9.9 (9), 9.10
func TestReasonComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		errno syscall.Errno
		cut   func(w *world, o *one, waits, bad shm.Submission)
	}{
		"dropped": {syscall.ECONNABORTED, func(w *world, o *one, waits, _ shm.Submission) {
			o.tm.submit(waits)
			w.receives()
			if err := w.server.Drop(o.hello.Connection); err != nil {
				w.t.Error(err)
			}
		}},
		"one round": {syscall.EBADR, func(_ *world, o *one, waits, bad shm.Submission) { o.tm.submit(waits, bad) }},
		"another TM": {syscall.EBADR, func(w *world, o *one, waits, bad shm.Submission) {
			o.tm.submit(waits)
			w.receives()
			o.start(34, 8, 16).submit(bad)
		}},
		"lnetd is stopping": {syscall.ESHUTDOWN, func(w *world, o *one, waits, _ shm.Submission) {
			o.tm.submit(waits)
			w.receives()
			go func() { _ = w.server.Close(w.t.Context()) }() // the end of the test calls it again
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				w := newWorld(t, nil)
				o := w.one(7, 16)
				waits := good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv]
				c.cut(w, o, waits, shm.Submission{Opcode: shm.OpMsgRecv, Buffer: 9})
				if e := o.tm.next(); e.Errno != syscall.ECANCELED || !e.Final {
					t.Errorf("%+v", e)
				}
				if n, err := o.now(); err != nil || n.Kind != protocol.NoticeCutOff || n.Errno() != c.errno {
					t.Fatalf("%+v, %v", n, err)
				}
				if _, _, _, err := o.read(); !errors.Is(err, io.EOF) {
					t.Errorf("behind the reason comes %v", err)
				}
			}
		})
	}
}

// The end of file comes after all operations have ended and all completions are in the ring.
//
// transport 9.10
func TestEndOfFileComesLast(t *testing.T) {
	core := newSlowCore()
	w := newWorld(t, func(c *Config) { c.Core, c.Grace = core, time.Hour })
	o := w.one(7, 16)
	o.tm.submit(good(o.buffer, 1, o.tm.at)[shm.OpMsgRecv])
	w.receives()
	if err := w.server.Drop(o.hello.Connection); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() bool { return w.server.Clients()[0].Ending })
	if n, err := o.now(); err != nil || n.Kind != protocol.NoticeCutOff {
		t.Errorf("%+v, %v", n, err)
	}
	eventually(t, "its end is held", func() bool {
		core.slow.mu.Lock()
		defer core.slow.mu.Unlock()
		return len(core.slow.held) == 1
	})
	if _, err := o.now(); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("before operations have ended: %v", err)
	}
	core.slow.letGo()
	if _, _, _, err := o.read(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	var e shm.Completion
	if ok, err := o.tm.Completions.Next(&e); !ok || e.Errno != syscall.ECANCELED || !e.Final {
		t.Errorf("%v, %+v, %v", ok, e, err)
	}
}

// The reason is the last record that a client receives.
//
// transport 9.9 (9)
func TestNoRecordsAfterTheReason(t *testing.T) {
	w := newWorld(t, nil)
	p := w.join()
	w.server.mu.Lock()
	c := w.server.clients[p.hello.Connection]
	w.server.mu.Unlock()
	c.cutOff(violation("first"))
	c.cutOff(violation("second"))
	c.notify(protocol.GoingDown(1, "lnetd is stopping"))
	if err := c.send(protocol.AppendNotice(nil, &protocol.Notice{Kind: protocol.NoticeLimits})); err == nil {
		t.Error("a record was sent behind the reason")
	}
	p.cut(syscall.EPROTO, "first")
	if len(p.notices) != 1 {
		t.Errorf("%+v", p.notices)
	}
}
