package console

import (
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// membersOf describes nodes; Console.mu is held.
func membersOf(list []*member) Members {
	m := Members{Nodes: make([]NodeInfo, 0, len(list))}
	for _, v := range list {
		m.Count.Add(v.state)
		m.Nodes = append(m.Nodes, NodeInfo{ID: v.id, State: v.state})
	}
	return m
}

// member is a node of the session, shared by its groups; Console.mu guards it.
type member struct {
	id       lnet.ProcessID
	state    State
	groups   int              // that it is in
	timeout  time.Duration    // of the session on the node; 0: it lives for ever
	features message.Features // of the session on the node
	contact  time.Time        // of the last answer
	joined   bool             // it came in by itself
	asked    bool             // whether it is there, and has not answered yet
	// makes is how often the session may have been made on the node, which counts
	// references: so often it must be removed.
	makes int
}

// destination is the node as a client is told of it.
func (m *member) destination() message.Destination {
	n, _ := message.NID4Of(m.id.NID) // it was parsed as such
	return message.Destination{NID: n, PID: m.id.PID}
}

// maxNodes bounds the nodes of a session, and of a list of NIDs.
const maxNodes = 16384

// maxRows bounds the nodes of all that one command names, each as often as it is
// named.
const maxRows = 4 * maxNodes

// tooMany refuses a command that names more.
func tooMany(what, name string) *Error {
	return refuse(syscall.ENOMEM, what, name, "more than %d nodes are named at once", maxRows)
}

// parseIDs reads NIDs as `lst` takes them, "10.0.0.[1-4]@tcp,10.0.1.1@tcp", with
// or without a PID before the first; each node once.
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
