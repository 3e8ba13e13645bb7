package shm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Files are the descriptors by which a client gets at its end of a ring file.
type Files struct {
	// Ring is the ring file, Submissions the eventfd by which lnetd is woken, Completions
	// the socket by which the client is. Less than 0 is none.
	Ring, Submissions, Completions int
}

// Close closes them.
func (f *Files) Close() {
	for _, fd := range []*int{&f.Ring, &f.Submissions, &f.Completions} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// Host is lnetd's end of a ring file. CreateRing makes it.
type Host struct {
	Submissions SubmissionConsumer
	Completions CompletionProducer
	memory      *Memory
}

// CreateRing makes a ring file with empty rings. The caller hands files to the client,
// and closes them then. It blocks as Create does. EINVAL: sizes that there cannot be.
func CreateRing(s Sizes) (h *Host, files Files, err error) {
	files = Files{-1, -1, -1}
	if err := s.check(); err != nil {
		return nil, files, err
	}
	m, fd, err := Create("lnetd-ring", s.FileSize())
	if err != nil {
		return nil, files, err
	}
	files.Ring = fd
	h = &Host{memory: m}
	if err := h.lay(s, &files); err != nil {
		files.Close()
		_ = m.Close()
		return nil, files, err
	}
	return h, files, nil
}

// lay makes the header, both halves, and the bells between them and the client's.
func (h *Host) lay(s Sizes, files *Files) error {
	b := h.memory.Bytes()
	s.fixed(b[:0])
	for _, at := range []int{offSQTail, offSQHead, offSQPosted, offCQTail, offCQHead} {
		word(b, at).Store(firstCount)
	}
	sq, cq := &h.Submissions, &h.Completions
	sq.lay(b, s.submissions())
	cq.lay(b, s.completions())
	sq.taken.shown, sq.bell.sleeps.shown, sq.bell.reads.shown = figure(b, offTaken), figure(b, offSleeps), figure(b, offReads)
	cq.put.shown, cq.bell.rung.shown = figure(b, offPut), figure(b, offRung)
	sq.posted.attach(b)

	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	files.Submissions, err = unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(event)
		return os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	if err := sq.bell.listen(event, word(b, offSQSleeping), true); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		cq.bell.ring(pair[0], word(b, offCQSleeping), giveSocket)
		files.Completions = pair[1]
		err = unix.Shutdown(pair[0], unix.SHUT_RD) // so that nothing can pile up here
	}
	if err != nil {
		h.Shut()
		return os.NewSyscallError("socketpair", err)
	}
	return nil
}

// ShutSubmissions is Shut for the submissions alone: completions can still be put, and the
// client be woken for them.
func (h *Host) ShutSubmissions() { h.Submissions.bell.close() }

// Shut has every Wait return ErrShut, and every Wake do nothing. It does not block, and
// may be called more than once, by any goroutine.
func (h *Host) Shut() {
	h.Submissions.bell.close()
	h.Completions.bell.to.close()
}

// Close shuts the end and gives the memory up: nobody may use either half any more, but
// for Completions.Wake. The client's end stays as it is.
func (h *Host) Close() error {
	h.Shut()
	return h.memory.Close()
}

// Client is a client's end of a ring file. AttachRing makes it.
type Client struct {
	Submissions SubmissionProducer
	Completions CompletionConsumer
	memory      *Memory
	sizes       Sizes
}

// AttachRing makes a client's end of what lnetd has handed to it. It owns the files,
// whatever comes of it. What Adopt refuses is refused; a header that lnetd does not write
// is a *lnet.FieldError and EPROTO, as are counters that cannot be (ErrRing); EINVAL: a
// descriptor of the wrong kind.
func AttachRing(files Files) (c *Client, err error) {
	defer func() { files.Close() }()
	size, err := inspect(files.Ring)
	if err != nil {
		return nil, err
	}
	m, err := mapped(files.Ring, int(size))
	if err != nil {
		return nil, err
	}
	c = &Client{memory: m}
	if err := c.find(&files); err != nil {
		_ = m.Close()
		return nil, err
	}
	return c, nil
}

// find reads the header, and makes both halves. It takes the bells out of files.
func (c *Client) find(files *Files) error {
	b := c.memory.Bytes()
	var first [fixedSize]byte
	copy(first[:], b)
	s, err := decodeSizes(first[:], int64(len(b)))
	if err != nil {
		return err
	}
	c.sizes = s
	sq, cq := &c.Submissions, &c.Completions
	sq.posted.attach(b)
	sq.lay(b, s.submissions())
	cq.lay(b, s.completions())
	if _, err := sq.Room(); err != nil {
		return err
	}
	if fill := cq.sharedTail.Load() - cq.next; fill > cq.count {
		return fmt.Errorf("%w: %d of %d completions", ErrRing, int32(fill), cq.count)
	}
	if err := checkBells(files); err != nil {
		return err
	}
	event, socket := files.Submissions, files.Completions
	files.Submissions, files.Completions = -1, -1
	sq.bell.ring(event, word(b, offSQSleeping), giveEvent)
	if err := cq.bell.listen(socket, word(b, offCQSleeping), false); err != nil {
		sq.bell.to.close()
		return err
	}
	return nil
}

// checkBells wants files that can wake and be woken, and have reads of the socket not
// block.
func checkBells(files *Files) error {
	var stat unix.Stat_t
	if err := unix.Fstat(files.Submissions, &stat); err != nil || stat.Mode&unix.S_IFMT != 0 {
		return fmt.Errorf("shm: the bell of submissions is no eventfd: %w", unix.EINVAL)
	}
	kind, err := unix.GetsockoptInt(files.Completions, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return fmt.Errorf("shm: the bell of completions is no stream socket: %w", unix.EINVAL)
	}
	return os.NewSyscallError("fcntl O_NONBLOCK", unix.SetNonblock(files.Completions, true))
}

// Sizes are the numbers of entries.
func (c *Client) Sizes() Sizes { return c.sizes }

// HostStats are lnetd's figures of its halves, as it shows them in the ring file, to be looked
// at. Any goroutine may call it, before Close.
func (c *Client) HostStats() (submissions ConsumerStats, completions ProducerStats) {
	b := c.memory.Bytes()
	submissions = ConsumerStats{Taken: figure(b, offTaken).Load(), Sleeps: figure(b, offSleeps).Load(), Reads: figure(b, offReads).Load()}
	completions = ProducerStats{Put: figure(b, offPut).Load(), Rung: figure(b, offRung).Load()}
	return submissions, completions
}

// Shut has every Wait return ErrShut, and every Wake do nothing. It does not block, and
// may be called more than once, by any goroutine.
func (c *Client) Shut() {
	c.Completions.bell.close()
	c.Submissions.bell.to.close()
}

// Close shuts the end and gives the memory up: nobody may use either half any more, but
// for Submissions.Wake. lnetd's end stays as it is.
func (c *Client) Close() error {
	c.Shut()
	return c.memory.Close()
}
