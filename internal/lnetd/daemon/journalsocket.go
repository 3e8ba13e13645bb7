package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// journalSocket is the path of systemd's journal socket.
	journalSocket = "/run/systemd/journal/socket"
	// journalTimeout is the maximum time that a log line waits for a journal that reads no entries.
	journalTimeout = 100 * time.Millisecond
)

// isJournal reports whether w is the stream to the journal that systemd passed to this process
// and identified in JOURNAL_STREAM.
func isJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	var s unix.Stat_t
	if unix.Fstat(int(f.Fd()), &s) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}

// journal is a connection to systemd's journal. It reconnects if the journal restarts. If the journal
// is stuck, entries are lost, so that the node does not block. Their number is logged when the journal
// accepts entries again. Its methods may be called concurrently.
type journal struct {
	path string
	// lost counts the entries lost since the journal got stuck. It is 0 while the journal works.
	lost    atomic.Uint64
	waiters atomic.Int32 // number of senders that wait for the journal

	mu   sync.Mutex // guards conn; not held while sending
	conn *net.UnixConn
}

func newJournal(path string) *journal { return &journal{path: path} }

// put sends an entry to the journal. It returns false if there is no journal. If the journal is stuck,
// put drops the entry and returns true. Only the first entry for a stuck journal waits, for at most
// journalTimeout.
func (j *journal) put(entry []byte) bool {
	for range 2 { // after the journal has restarted, the first attempt fails on the old socket
		conn := j.connected()
		if conn == nil {
			return false
		}
		lost := j.lost.Load()
		err := j.send(conn, entry, lost == 0)
		switch {
		case err == nil:
			if lost > 0 && j.lost.CompareAndSwap(lost, 0) && j.send(conn, lostEntry(lost), false) != nil {
				j.lost.Add(lost) // the next entry reports them
			}
			return true
		case errors.Is(err, unix.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
			j.lost.Add(1)
			return true
		}
		j.leave(conn)
	}
	return false
}

// lostEntry returns a journal entry which reports that n entries were lost.
func lostEntry(n uint64) []byte {
	e := entry{text: []byte(textLost)}
	b := appendField(nil, "LNET_EVENT", textLost)
	b = appendField(b, "LNET_LINES", fmt.Sprint(n))
	b = appendField(b, "PRIORITY", "4")
	b = appendField(b, "SYSLOG_IDENTIFIER", journalIdentifier)
	return appendField(b, "MESSAGE", fmt.Appendf(e.text, " lines=%d", n))
}

const textLost = "log lines were lost because journald did not accept them for a while"

// connected returns a socket that is connected to the journal, or nil if there is no journal.
func (j *journal) connected() *net.UnixConn {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn == nil {
		// This never blocks.
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.path, Net: "unixgram"})
		if err != nil {
			return nil
		}
		j.conn = c
	}
	return j.conn
}

// leave closes c. If c is the current socket, the next entry opens a new one.
func (j *journal) leave(c *net.UnixConn) {
	j.mu.Lock()
	if j.conn == c {
		j.conn = nil
	}
	j.mu.Unlock()
	_ = c.Close()
}

func (j *journal) close() {
	if c := j.connected(); c != nil {
		j.leave(c)
	}
}

// send sends an entry to the journal as a datagram or, if it is too large for one, as a memory file. If
// the journal accepts no entry now, send waits for at most journalTimeout if wait is set, and otherwise
// returns EAGAIN.
func (j *journal) send(c *net.UnixConn, entry []byte, wait bool) error {
	err := j.sendMessage(c, entry, nil, wait)
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	fd, err := sealed(entry)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return j.sendMessage(c, nil, unix.UnixRights(fd), wait)
}

func (j *journal) sendMessage(c *net.UnixConn, data, rights []byte, wait bool) (err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	attempt := func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), data, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	}
	if err := raw.Control(func(fd uintptr) { attempt(fd) }); err != nil {
		return err
	}
	if !wait || !errors.Is(sent, unix.EAGAIN) {
		return sent
	}
	if err := j.beginWait(c); err != nil {
		return err
	}
	defer j.waiters.Add(-1)
	if err := raw.Write(attempt); err != nil {
		return err
	}
	return sent
}

// beginWait counts the caller as a sender that waits for the journal. The first sender sets the write
// deadline of the socket, which then applies to all senders that begin to wait after it. If beginWait
// returns nil, the caller must decrement waiters after the wait.
func (j *journal) beginWait(c *net.UnixConn) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiters.Add(1) > 1 {
		return nil
	}
	if err := c.SetWriteDeadline(time.Now().Add(journalTimeout)); err != nil {
		j.waiters.Add(-1)
		return err
	}
	return nil
}

// sealed returns the descriptor of a memory file with the contents b that can no longer be changed, as
// the journal requires. The caller must close it.
func sealed(b []byte) (int, error) {
	fd, err := unix.MemfdCreate("lnetd-log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	for len(b) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, b)
		b = b[max(n, 0):]
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
