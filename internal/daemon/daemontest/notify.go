package daemontest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Notify is a socket that a process tells its state to, as if it were
// systemd's. Put Env into the process's environment. A goroutine reads it until
// Close, as systemd does: a process waits while the socket is full.
type Notify struct {
	conn *net.UnixConn
	path string
	done chan struct{} // closed when nothing is read anymore

	mu    sync.Mutex
	heard []string
	more  chan struct{} // closed, and replaced, when there is more in heard
}

// NewNotify makes the socket at path.
func NewNotify(path string) (*Notify, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	// The process may run as another user.
	if err := os.Chmod(path, 0o666); err != nil {
		_ = conn.Close()
		return nil, err
	}
	n := &Notify{conn: conn, path: path, done: make(chan struct{}), more: make(chan struct{})}
	go n.read()
	return n, nil
}

func (n *Notify) read() {
	defer close(n.done)
	buf := make([]byte, 4096)
	for {
		got, err := n.conn.Read(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.heard = append(n.heard, strings.Split(string(buf[:got]), "\n")...)
		close(n.more)
		n.more = make(chan struct{})
		n.mu.Unlock()
	}
}

// Env is the environment variable that names the socket.
func (n *Notify) Env() string { return "NOTIFY_SOCKET=" + n.path }

// Await waits until the process has told the state, such as "READY=1", or
// patience is at its end.
func (n *Notify) Await(state string, patience time.Duration) error {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		n.mu.Lock()
		heard, more := n.heard, n.more
		n.mu.Unlock()
		if slices.Contains(heard, state) {
			return nil
		}
		select {
		case <-more:
		case <-n.done:
			return fmt.Errorf("waiting for %s, heard %q: %w", state, heard, net.ErrClosed)
		case <-end.C:
			return fmt.Errorf("waiting for %s, heard %q: %w", state, heard, os.ErrDeadlineExceeded)
		}
	}
}

// Close removes the socket.
func (n *Notify) Close() error {
	err := n.conn.Close()
	<-n.done
	return err
}
