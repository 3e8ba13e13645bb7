package clients

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
)

// Process identifies the process that made a connection.
type Process struct {
	unixsocket.Peer
	// Cgroup is the path of the process's control group in cgroup 2. On a host without cgroup 2, it is the
	// first line of /proc/PID/cgroup. It is empty if the process no longer existed when it was read.
	Cgroup string
}

// processOf returns the process that made a connection.
func processOf(conn *net.UnixConn) (Process, error) {
	p, err := unixsocket.PeerOf(conn)
	if err != nil {
		return Process{}, err
	}
	return Process{p, cgroupOf(p.PID)}, nil
}

// cgroupOf returns the control group of a process; see Process.Cgroup.
func cgroupOf(pid int32) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path
		}
	}
	return first
}
