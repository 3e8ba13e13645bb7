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

// Notify is a notification socket, as systemd has one. A process whose environment has Env sends its
// notifications to it. A goroutine reads the socket until Close, because a process that sends would
// block while the socket is full.
type Notify struct {
	conn *net.UnixConn
	path string
	done chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	states []string
	more   chan struct{} // closed and replaced when states grows
}

// NewNotify creates a notification socket at path. The caller must close it.
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
		n.states = append(n.states, strings.Split(string(buf[:got]), "\n")...)
		close(n.more)
		n.more = make(chan struct{})
		n.mu.Unlock()
	}
}

// Env returns the environment variable that names the socket.
func (n *Notify) Env() string { return "NOTIFY_SOCKET=" + n.path }

// Await waits until a process has sent the state, such as "READY=1". It returns an error after patience.
func (n *Notify) Await(state string, patience time.Duration) error {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		n.mu.Lock()
		heard, more := n.states, n.more
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

// Close closes and removes the socket.
func (n *Notify) Close() error {
	err := n.conn.Close()
	<-n.done
	return err
}
