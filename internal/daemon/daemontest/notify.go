package daemontest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// Notify is a socket that a process tells its state to, as if it were
// systemd's. Put Env into the process's environment.
type Notify struct {
	conn  *net.UnixConn
	path  string
	heard []string
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
	return &Notify{conn: conn, path: path}, nil
}

// Env is the environment variable that names the socket.
func (n *Notify) Env() string { return "NOTIFY_SOCKET=" + n.path }

// Await waits until the process has told the state, such as "READY=1", or
// patience is at its end.
func (n *Notify) Await(state string, patience time.Duration) error {
	if err := n.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for !slices.Contains(n.heard, state) {
		got, err := n.conn.Read(buf)
		if err != nil {
			return fmt.Errorf("waiting for %s, heard %q: %w", state, n.heard, err)
		}
		n.heard = append(n.heard, strings.Split(string(buf[:got]), "\n")...)
	}
	return nil
}

// Close removes the socket.
func (n *Notify) Close() error { return n.conn.Close() }
