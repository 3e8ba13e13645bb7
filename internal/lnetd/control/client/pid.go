package client

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// PID returns the PID of lnetd in the PID namespace of this process, in which it may differ from the PID own that lnetd
// reports. It returns 0 if lnetd is not visible there, or does not accept a connection.
func (c *Client) PID(ctx context.Context, own int) int {
	conn, err := c.connect(ctx)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	cred, ok := api.Credentials(conn)
	if !ok {
		return 0
	}
	return translate(own, int(cred.Pid), func(pid int) ([]byte, error) {
		return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	})
}

// translate returns the PID of lnetd here. The process listener has called listen for the socket: lnetd or, if it has
// passed the socket to lnetd, a service manager. It is 0 if it is not visible here. The function status reads the file of
// this name in /proc.
func translate(own, listener int, status func(pid int) ([]byte, error)) int {
	if listener == 0 || listener == own {
		return listener
	}
	text, err := status(listener)
	if err != nil {
		return listener
	}
	switch pids := namespacePIDs(text); {
	case len(pids) > 1 && pids[len(pids)-1] == strconv.Itoa(own):
		return listener
	case len(pids) == 1: // a service manager, which uses the PIDs of this process
		return own
	}
	return 0
}

// namespacePIDs returns the PIDs of a process in the PID namespaces from that of this process to its own, according to
// its file status.
func namespacePIDs(status []byte) []string {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			return strings.Fields(string(rest))
		}
	}
	return nil
}
