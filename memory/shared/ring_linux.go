package shared

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Files are the file descriptors that give a client access to its end of a ring file.
type Files struct {
	// Ring is the ring file. Submissions is the eventfd that wakes lnetd. Completions is the socket that
	// wakes the client. A negative value means that there is no descriptor.
	Ring, Submissions, Completions int
}

// Close closes the descriptors and sets them to -1.
func (f *Files) Close() {
	for _, fd := range []*int{&f.Ring, &f.Submissions, &f.Completions} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// Host is lnetd's end of a ring file. Format.Create creates it.
type Host struct {
	Submissions SubmissionConsumer
	Completions CompletionProducer
	memory      *Memory
}

// Create creates a ring file with empty rings. The caller passes files to the client and then closes them.
// Like the function Create, it may block while the kernel allocates pages. It returns EINVAL if the sizes are
// invalid.
func (f Format) Create(s Sizes) (h *Host, files Files, err error) {
	files = Files{-1, -1, -1}
	if err := s.check(); err != nil {
		return nil, files, err
	}
	m, fd, err := Create("lnetd-ring", f.FileSize(s))
	if err != nil {
		return nil, files, err
	}
	files.Ring = fd
	h = &Host{memory: m}
	if err := h.init(layout{f, s}, &files); err != nil {
		files.Close()
		_ = m.Close()
		return nil, files, err
	}
	return h, files, nil
}

// init initializes the header, both rings, and the bells, and adds the client's descriptors to files.
func (h *Host) init(l layout, files *Files) error {
	b := h.memory.Bytes()
	l.fixed(b[:0])
	for _, at := range []int{offSQTail, offSQHead, offSQPosted, offCQTail, offCQHead} {
		word(b, at).Store(firstCount)
	}
	sq, cq := &h.Submissions, &h.Completions
	sq.init(b, l.submissions())
	cq.init(b, l.completions())
	sq.readNow.published, sq.bell.sleeps.published, sq.bell.reads.published = statCounter(b, offReleased), statCounter(b, offSleeps), statCounter(b, offReads)
	cq.put.published, cq.bell.wakeups.published = statCounter(b, offPut), statCounter(b, offWakeups)
	sq.posted.attach(b)
	cq.overflow = word(b, offCQOverflow)

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
		cq.bell.init(pair[0], word(b, offCQSleeping), writeSocket)
		files.Completions = pair[1]
		err = unix.Shutdown(pair[0], unix.SHUT_RD) // so that the client cannot fill this end with data
	}
	if err != nil {
		sq.bell.close()
		if files.Completions >= 0 {
			cq.bell.descriptor.close()
		}
		return os.NewSyscallError("socketpair", err)
	}
	return nil
}

// ShutSubmissions is like Shut, but only for the submissions. Completions can still be added, and the client
// can be woken for them.
func (h *Host) ShutSubmissions() { h.Submissions.bell.close() }

// Shut makes every Wait of this end return ErrShut, and makes Wake ineffective. It does not block. It may be
// called repeatedly and concurrently.
func (h *Host) Shut() {
	h.Submissions.bell.close()
	h.Completions.bell.descriptor.close()
}

// Close shuts this end and unmaps its memory. After that the only method that may be called is
// Completions.Wake. The client's end is not affected.
func (h *Host) Close() error {
	h.Shut()
	return h.memory.Close()
}

// Client is a client's end of a ring file. Format.Attach creates it.
type Client struct {
	Submissions SubmissionProducer
	Completions CompletionConsumer
	memory      *Memory
	sizes       Sizes
}

// Attach creates a client's end from the files that lnetd has passed to it. It takes ownership of the files,
// even if it returns an error. It returns the errors of Adopt; EPROTO if lnetd cannot have written the
// header; ErrRing if the counters are invalid; and EINVAL if a descriptor has
// the wrong type.
func (f Format) Attach(files Files) (c *Client, err error) {
	defer func() { files.Close() }()
	size, err := validateDescriptor(files.Ring)
	if err != nil {
		return nil, err
	}
	m, err := mapped(files.Ring, int(size))
	if err != nil {
		return nil, err
	}
	c = &Client{memory: m}
	if err := c.decode(f, &files); err != nil {
		_ = m.Close()
		return nil, err
	}
	return c, nil
}

// decode decodes the header and initializes both rings. If it succeeds, it takes ownership of the bells and
// removes their descriptors from files.
func (c *Client) decode(f Format, files *Files) error {
	b := c.memory.Bytes()
	var first [fixedSize]byte
	copy(first[:], b)
	s, err := f.decodeSizes(first[:], int64(len(b)))
	if err != nil {
		return err
	}
	c.sizes = s
	l := layout{f, s}
	sq, cq := &c.Submissions, &c.Completions
	sq.posted.attach(b)
	cq.overflow = word(b, offCQOverflow)
	sq.init(b, l.submissions())
	cq.init(b, l.completions())
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
	sq.bell.init(event, word(b, offSQSleeping), writeEventfd)
	if err := cq.bell.listen(socket, word(b, offCQSleeping), false); err != nil {
		sq.bell.descriptor.close()
		return err
	}
	return nil
}

// checkBells checks the types of the bells' descriptors, and makes the socket non-blocking.
func checkBells(files *Files) error {
	var stat unix.Stat_t
	if err := unix.Fstat(files.Submissions, &stat); err != nil || stat.Mode&unix.S_IFMT != 0 {
		return fmt.Errorf("the bell of submissions is no eventfd: %w", unix.EINVAL)
	}
	kind, err := unix.GetsockoptInt(files.Completions, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return fmt.Errorf("the bell of completions is no stream socket: %w", unix.EINVAL)
	}
	return os.NewSyscallError("fcntl O_NONBLOCK", unix.SetNonblock(files.Completions, true))
}

// Sizes returns the numbers of entries of the two rings.
func (c *Client) Sizes() Sizes { return c.sizes }

// HostStats returns the statistics of lnetd's sides of the rings, which lnetd publishes in the ring file for
// display. It is safe for concurrent use, but must not be called after Close.
func (c *Client) HostStats() (submissions ConsumerStats, completions ProducerStats) {
	b := c.memory.Bytes()
	submissions = ConsumerStats{Released: statCounter(b, offReleased).Load(), Sleeps: statCounter(b, offSleeps).Load(), Reads: statCounter(b, offReads).Load()}
	completions = ProducerStats{Put: statCounter(b, offPut).Load(), Wakeups: statCounter(b, offWakeups).Load()}
	return submissions, completions
}

// Shut makes every Wait of this end return ErrShut, and makes Wake ineffective. It does not block. It may be
// called repeatedly and concurrently.
func (c *Client) Shut() {
	c.Completions.bell.close()
	c.Submissions.bell.descriptor.close()
}

// Close shuts this end and unmaps its memory. After that the only method that may be called is
// Submissions.Wake. lnetd's end is not affected.
func (c *Client) Close() error {
	c.Shut()
	return c.memory.Close()
}
