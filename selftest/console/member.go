package console

import (
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// membersOf describes nodes. The caller holds Console.mu.
func membersOf(list []*member) Members {
	m := Members{Nodes: make([]NodeInfo, 0, len(list))}
	for _, v := range list {
		m.Count.Add(v.state)
		m.Nodes = append(m.Nodes, NodeInfo{ID: v.id, State: v.state})
	}
	return m
}

// member is a node of the session. Its groups share it. Console.mu guards it.
type member struct {
	id       lnet.ProcessID
	state    State
	groups   int              // number of groups that contain it
	timeout  time.Duration    // of the session on the node; 0: no timeout
	features message.Features // of the session on the node
	contact  time.Time        // time of the last answer
	joined   bool             // it joined by itself
	asked    bool             // a keep-alive request is unanswered
	// makes is how often the session may have been made on the node. Nodes count references, so it must
	// be removed as often.
	makes int
}

// destination returns the node as a destination of a client's test.
func (m *member) destination() message.Destination {
	n, _ := message.NID4Of(m.id.NID) // cannot fail: the NID was parsed as one
	return message.Destination{NID: n, PID: m.id.PID}
}

// maxNodes limits the nodes of a session and of a list of NIDs.
const maxNodes = 16384

// maxRows limits the nodes in all targets of one command. A node in several targets counts several times.
const maxRows = 4 * maxNodes

// tooMany returns the error for a command that names more than maxRows nodes.
func tooMany(what, name string) *Error {
	return refuse(syscall.ENOMEM, what, name, "more than %d nodes are given at once", maxRows)
}

// parseIDs parses NIDs in the syntax of lst: "10.0.0.[1-4]@tcp,10.0.1.1@tcp", with or without a PID
// before the first. Each node is returned once.
func parseIDs(text string) ([]lnet.ProcessID, *Error) {
	fail := func(format string, args ...any) ([]lnet.ProcessID, *Error) {
		return nil, refuse(syscall.EINVAL, "nodes", text, format, args...)
	}
	nids, err := lnet.ExpandNIDs(strings.TrimPrefix(text, lnet.PIDLustre.String()+"-"), maxNodes)
	if err != nil {
		return fail("%v", err)
	}
	ids := make([]lnet.ProcessID, 0, len(nids))
	seen := make(map[lnet.NID]bool, len(nids))
	for _, n := range nids {
		if _, ok := message.NID4Of(n); !ok || n.IsAny() || n.IsZero() {
			return fail("%s cannot be named in this protocol", n)
		}
		if !seen[n] {
			seen[n] = true
			ids = append(ids, lnet.ProcessID{NID: n, PID: lnet.PIDLustre})
		}
	}
	return ids, nil
}
