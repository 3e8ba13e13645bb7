package console

import (
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// membersOf returns the IDs and states of nodes. The caller holds Console.mu.
func membersOf(list []*member) Members {
	m := Members{Nodes: make([]NodeInfo, 0, len(list))}
	for _, v := range list {
		m.Count.Add(v.state)
		m.Nodes = append(m.Nodes, NodeInfo{ID: v.id, State: v.state})
	}
	return m
}

// member is a node of the session. All groups that contain the node refer to the same member. Console.mu
// guards it.
type member struct {
	id       lnet.ProcessID
	state    State
	groups   int              // number of groups that contain it
	timeout  time.Duration    // session timeout of the node; 0 means no timeout
	features message.Features // features of the session on the node
	contact  time.Time        // time of the last answer
	joined   bool             // the node has joined by a JOIN request
	asked    bool             // a keep-alive request to the node is unanswered
	// makes is the number of references to the session that the node may have. Each make-session request adds
	// one. To end the session on the node, all must be removed.
	makes int
}

// destination returns the node in the form of the destination of a client test.
func (m *member) destination() message.Destination {
	n, _ := message.NID4Of(m.id.NID) // cannot fail, because only such NIDs become members
	return message.Destination{NID: n, PID: m.id.PID}
}

// maxNodes is the maximum number of nodes of a session, and of a list of NIDs.
const maxNodes = 16384

// maxRows is the maximum number of nodes in all targets of one command. A node in several targets counts
// several times.
const maxRows = 4 * maxNodes

// tooMany returns the error for a command that names more than maxRows nodes.
func tooMany(what, name string) *Error {
	return refuse(syscall.ENOMEM, what, name, "more than %d nodes are given at once", maxRows)
}

// parseIDs parses a list of NIDs in the syntax of lst: "10.0.0.[1-4]@tcp,10.0.1.1@tcp", where a PID and a hyphen may
// precede the first NID. The PID is that of all nodes: 12345, or that of an application. It returns each node once.
func parseIDs(text string) ([]lnet.ProcessID, *Error) {
	fail := func(format string, args ...any) ([]lnet.ProcessID, *Error) {
		return nil, refuse(syscall.EINVAL, "nodes", text, format, args...)
	}
	pid, list, err := lnet.CutPID(strings.TrimSpace(text))
	if err != nil {
		return fail("%v", err)
	}
	if pid != lnet.PIDLustre && !pid.IsApplication() {
		return fail("the PID %s is neither %s nor that of an application", pid, lnet.PIDLustre)
	}
	nids, err := lnet.ExpandNIDs(list, maxNodes)
	if err != nil {
		return fail("%v", err)
	}
	ids := make([]lnet.ProcessID, 0, len(nids))
	seen := make(map[lnet.NID]bool, len(nids))
	for _, n := range nids {
		if _, ok := message.NID4Of(n); !ok || n.IsAny() || n.IsZero() {
			return fail("%s is not a NID with a 4-byte address, as selftest requires", n)
		}
		if !seen[n] {
			seen[n] = true
			ids = append(ids, lnet.ProcessID{NID: n, PID: pid})
		}
	}
	return ids, nil
}
