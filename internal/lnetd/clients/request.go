package clients

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// handle answers a request, which came with the descriptors fds, and closes these. If it returns an error,
// the caller must end the connection.
func (c *client) handle(record []byte, fds []int) error {
	h, r, err := protocol.DecodeRequest(record)
	fail := func(err error) error {
		closeAll(fds)
		return err
	}
	c.mu.Lock()
	c.requests++
	c.mu.Unlock()
	switch {
	case errors.Is(err, syscall.EPROTO):
		return fail(err)
	case len(fds) != h.Opcode.RequestFDs():
		return fail(violation("%v has %d file descriptors instead of %d", h.Opcode, len(fds), h.Opcode.RequestFDs()))
	case c.domain == nil && h.Opcode != protocol.OpHello:
		return fail(violation("%v was sent before HELLO", h.Opcode))
	case c.domain != nil && h.Opcode == protocol.OpHello:
		return fail(violation("HELLO was sent twice"))
	case err != nil:
		closeAll(fds)
		if err := c.send(protocol.AppendFailure(nil, h, err)); err != nil {
			return err
		}
		if c.domain == nil {
			return err
		}
		return nil
	}
	if hello, ok := r.(*protocol.Hello); ok {
		return c.hello(h, hello)
	}
	fd := -1
	if len(fds) > 0 {
		fd = fds[0]
	}
	body, files, err := c.execute(r, fd)
	defer files.Close()
	if err != nil {
		return c.send(protocol.AppendFailure(nil, h, err))
	}
	answer, err := protocol.AppendReply(nil, h, body)
	if err != nil {
		return c.send(protocol.AppendFailure(nil, h, err))
	}
	if files.Ring >= 0 {
		return c.send(answer, files.Ring, files.Submissions, files.Completions)
	}
	return c.send(answer)
}

// noFiles is what execute returns for a reply without descriptors.
var noFiles = shared.Files{Ring: -1, Submissions: -1, Completions: -1}

// execute executes a request and returns the reply. If the request has a descriptor, fd, execute closes it.
// The caller must close the returned files, which are sent with the reply.
func (c *client) execute(r protocol.Request, fd int) (protocol.Body, shared.Files, error) {
	var body protocol.Body = &protocol.Empty{}
	var err error
	switch r := r.(type) {
	case *protocol.NIDsGet:
		body, err = c.nids()
	case *protocol.AreaAdd:
		body, err = c.addArea(fd, r.Size)
	case *protocol.AreaDel:
		err = c.deleteArea(r.Area)
	case *protocol.BufRegister:
		body, err = c.register(r.Ranges)
	case *protocol.BufDeregister:
		err = c.deregister(r.Index, r.Generation)
	case *protocol.TMStart:
		return c.startTM(r)
	case *protocol.TMStop:
		body, err = c.stopTM(r.Handle)
	case *protocol.StatsGet:
		body, err = c.stats(r.Handle)
	case *protocol.Nop:
		body = r
	}
	return body, noFiles, err
}

// hello answers HELLO, the first request of a connection. If it returns an error, the caller must end the
// connection.
func (c *client) hello(h protocol.Header, r *protocol.Hello) error {
	c.mu.Lock()
	c.program = r.Program
	c.mu.Unlock()
	reply, err := c.negotiate(r)
	if err != nil {
		if err := c.send(protocol.AppendFailure(nil, h, err)); err != nil {
			return err
		}
		return err
	}
	answer, err := protocol.AppendReply(nil, h, reply)
	if err != nil {
		return err
	}
	return c.send(answer)
}

// negotiate agrees with the client on a version and features of the protocol, and opens the client's
// domain. It returns the refusal of a client that may not use lnetd.
func (c *client) negotiate(r *protocol.Hello) (*protocol.HelloReply, error) {
	offered := protocol.FeatOverflow | protocol.FeatPosted | protocol.FeatMatchBits | protocol.FeatFutex
	if c.server.config.PollTime > 0 {
		offered |= protocol.FeatPolling
	}
	version, granted, err := r.Negotiate(offered)
	if err != nil {
		return nil, err
	}
	if c.refusal != nil {
		return nil, c.refusal
	}
	d, err := c.server.config.Core.Open(c.ctx)
	if err != nil {
		return nil, fmt.Errorf("open a domain: %w", err)
	}
	domain, ok := d.(completion.Domain)
	if !ok {
		return nil, errors.Join(fmt.Errorf("core %q cannot be used by clients: %w", c.server.config.Core.Name(), syscall.ENOSYS), d.Close())
	}
	l := d.Limits()
	c.limits = protocol.Limits{
		BufferSize: uint64(l.BufferSize), SegmentSize: uint64(l.SegmentSize),
		Segments: uint32(min(l.Segments, protocol.MaxRanges)), DescriptorSize: uint32(l.DescriptorSize),
	}
	q := &c.rule.Connection
	c.size, c.features, c.requestRate = c.limits.DescriptorSize, granted, newRateLimit(q.Requests)
	c.buffers.init(q.Buffers)
	c.mu.Lock()
	c.domain = domain
	c.mu.Unlock()
	c.note("client connected")
	return &protocol.HelloReply{
		Version: version, Features: granted, Limits: c.limits,
		Quotas: protocol.Quotas{
			TMs: uint32(q.TMs), Buffers: uint32(q.Buffers), Areas: uint32(q.Areas),
			RingEntries: uint32(q.RingEntries), Bytes: uint64(q.Bytes),
		},
		Incarnation: c.server.config.Incarnation, Now: c.server.now(), Connection: c.id,
	}, c.conn.SetReadDeadline(time.Time{})
}

// charge adds resources to those of the connection and of its user. If a quota would be exceeded, it adds
// nothing and returns EDQUOT.
func (c *client) charge(more amounts) error {
	return c.server.users.add(c.process.UID, &c.usage, &more, c.rule)
}

// uncharge subtracts resources that charge has added, after they have been released.
func (c *client) uncharge(less amounts) {
	c.server.users.subtract(c.process.UID, &c.usage, &less)
}

func (c *client) nids() (*protocol.NIDsReply, error) {
	nids, err := c.domain.NIDs(c.ctx)
	if err != nil {
		return nil, err
	}
	c.notifyLimits()
	return &protocol.NIDsReply{NIDs: nids[:min(len(nids), protocol.MaxNIDs)]}, nil
}

// notifyLimits notifies the client if the size of descriptors has changed. It may block like send, because
// a notice that is discarded would not be repeated.
func (c *client) notifyLimits() {
	if n := uint32(c.domain.Limits().DescriptorSize); n != c.size {
		c.size = n
		notice := protocol.Notice{Kind: protocol.NoticeLimits, Value: int32(n)}
		_ = c.send(protocol.AppendNotice(nil, &notice)) // if this fails, sending the reply fails too
	}
}

func (c *client) addArea(fd int, size uint64) (*protocol.AreaAddReply, error) {
	charge := amounts{ofAreas: 1, ofBytes: int64(min(size, 1<<62))}
	if err := c.charge(charge); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	a, err := newArea(c.ctx, c.domain, fd, size)
	if err != nil {
		c.uncharge(charge)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &protocol.AreaAddReply{Area: c.areas.add(a)}, nil
}

func (c *client) deleteArea(id uint32) error {
	c.mu.Lock()
	a, err := c.areas.get(id)
	users := 0
	if err == nil {
		users = a.users
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case users > 0:
		return fmt.Errorf("area %d is in use by buffers: %w", id, syscall.EBUSY)
	}
	if err := a.unmap(c.domain); err != nil {
		return err
	}
	c.mu.Lock()
	c.areas[id] = nil
	c.mu.Unlock()
	c.uncharge(amounts{ofAreas: 1, ofBytes: int64(len(a.bytes))})
	return nil
}

func (c *client) register(parts []protocol.Range) (*protocol.BufRegisterReply, error) {
	c.mu.Lock()
	segments, of, err := c.areas.segments(parts, &c.limits)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b := &buffer{areas: of}
	if err := c.charge(b.charge()); err != nil {
		return nil, err
	}
	for _, s := range segments {
		b.size += len(s)
	}
	if b.core, err = c.domain.Register(c.ctx, segments, b); err != nil {
		c.uncharge(b.charge())
		return nil, err
	}
	c.mu.Lock()
	for _, a := range of {
		a.users++
	}
	c.mu.Unlock()
	c.buffers.add(b)
	return &protocol.BufRegisterReply{Index: b.index, Generation: b.generation}, nil
}

// processSubmissions processes all operations that the client submitted to any of its TMs before its
// current request.
func (c *client) processSubmissions() error {
	for _, t := range c.startedTMs() {
		if err := t.processSubmissions(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) deregister(index, generation uint32) error {
	b, err := c.buffers.find(index, generation)
	switch {
	case err != nil:
		return err
	case b == nil:
		return fmt.Errorf("buffer %d has another generation than %d, because it was registered again: %w", index, generation, syscall.EBADR)
	}
	switch err := c.processSubmissions(); {
	case err != nil:
		return err
	case !b.owner.CompareAndSwap(nil, deregisteringTM):
		return fmt.Errorf("buffer %d is in use by an operation: %w", index, syscall.EBUSY)
	}
	if err := b.core.Deregister(); err != nil {
		b.owner.Store(nil)
		return err
	}
	c.removeBuffer(b)
	return nil
}

// removeBuffer removes a buffer that has been deregistered from the Core from the client's tables, and
// releases its quota.
func (c *client) removeBuffer(b *buffer) {
	c.buffers.remove(b)
	c.mu.Lock()
	for _, a := range b.areas {
		a.users--
	}
	c.mu.Unlock()
	c.uncharge(b.charge())
}

func (c *client) startTM(r *protocol.TMStart) (protocol.Body, shared.Files, error) {
	a := transport.Address{NID: r.NID, PID: r.PID, Portal: r.Portal, TMID: uint16(r.TMID)}
	if err := c.rule.permits(a); err != nil {
		return nil, noFiles, err
	}
	entries := protocol.Granted(r.Completions)
	charge := amounts{ofTMs: 1, ofEntries: int64(entries)}
	if err := c.charge(charge); err != nil {
		return nil, noFiles, err
	}
	t, files, err := newTM(c, a, int(entries))
	if err != nil {
		c.uncharge(charge)
		return nil, noFiles, err
	}
	t.overflows = c.features&protocol.FeatOverflow != 0
	if t.core, err = c.rule.startTM(c.ctx, c.domain, a, t); err != nil {
		t.closeRing()
		files.Close()
		c.uncharge(charge)
		return nil, noFiles, err
	}
	t.address = t.core.Address()
	t.setWaiting(c.features)
	reply := &protocol.TMStartReply{TMID: uint32(t.address.TMID), Completions: entries, Credits: protocol.Credits(entries)}
	if c.features&protocol.FeatMatchBits != 0 {
		t.passive = passiveBitsFrom(t.core.MatchBits())
		reply.MatchBits = uint64(t.core.MatchBits())
	}
	c.mu.Lock()
	t.handle = c.addTM(t)
	c.mu.Unlock()
	reply.Handle = t.handle
	go t.run()
	c.notifyLimits()
	return reply, files, nil
}

// startTM starts a TM of the Core at the address a, whose completions go to t. If the number in a is
// Dynamic, the Core normally chooses any free number. If the rule permits only some numbers, startTM tries
// those instead.
func (r *Rule) startTM(ctx context.Context, d completion.Domain, a transport.Address, t *tm) (completion.TM, error) {
	if a.TMID != transport.Dynamic || r.open == nil {
		return d.StartTMTo(ctx, a, t)
	}
	r.open.mu.Lock()
	defer r.open.mu.Unlock()
	var tm completion.TM
	_, err := r.open.Choose(func(id uint16) (_ bool, err error) {
		a.TMID = id
		if tm, err = d.StartTMTo(ctx, a, t); errors.Is(err, syscall.EADDRINUSE) {
			return false, nil
		}
		return err == nil, err
	})
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, fmt.Errorf("all TM numbers from %d to %d are in use: %w", r.TMIDs.First, r.TMIDs.Last, err)
	}
	return tm, err
}

// addTM stores t under an unused handle and returns the handle. The caller holds mu.
func (c *client) addTM(t *tm) uint32 {
	for h, o := range c.tms {
		if o == nil {
			c.tms[h] = t
			return uint32(h)
		}
	}
	c.tms = append(c.tms, t)
	return uint32(len(c.tms) - 1)
}

// tm returns the TM with a handle, or EBADR if it does not exist.
func (c *client) tm(handle uint32) (*tm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint64(handle) >= uint64(len(c.tms)) || c.tms[handle] == nil {
		return nil, fmt.Errorf("TM %d does not exist: %w", handle, syscall.EBADR)
	}
	return c.tms[handle], nil
}

func (c *client) stopTM(handle uint32) (*protocol.Counters, error) {
	t, err := c.tm(handle)
	if err != nil {
		return nil, err
	}
	if err := t.stop(); err != nil {
		return nil, err
	}
	counters := t.counters()
	c.forgetTM(t)
	counters.Requests = c.requestCount()
	return &counters, nil
}

// forgetTM removes a TM that has been stopped in the Core from the client's table, and releases its quota.
// The client's sums include the TM's counters from then on.
func (c *client) forgetTM(t *tm) {
	counters, done := t.counters(), t.tally()
	c.mu.Lock()
	c.tms[t.handle] = nil
	c.stoppedTMs.add(&done)
	addCounters(&c.reported, &counters)
	c.mu.Unlock()
	c.uncharge(amounts{ofTMs: 1, ofEntries: int64(t.entries)})
}

// requestCount returns the number of requests that the client has made.
func (c *client) requestCount() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func addCounters(to, of *protocol.Counters) {
	to.Submissions += of.Submissions
	to.Completions += of.Completions
	to.BellWrites += of.BellWrites
	to.BellReads += of.BellReads
}

func (c *client) stats(handle uint32) (*protocol.Counters, error) {
	var total protocol.Counters
	if handle != protocol.NoHandle {
		t, err := c.tm(handle)
		if err != nil {
			return nil, err
		}
		total = t.counters()
	} else {
		c.mu.Lock()
		total = c.reported
		for _, t := range c.tms {
			if t != nil {
				counters := t.counters()
				addCounters(&total, &counters)
			}
		}
		c.mu.Unlock()
	}
	total.Requests = c.requestCount()
	return &total, nil
}
