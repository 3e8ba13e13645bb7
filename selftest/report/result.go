package report

import (
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Result is what came of asking a set of nodes (selftest 7.3).
type Result struct {
	Nodes []NodeResult `json:"nodes"`
	// Answered nodes have replied, Unanswered have not. Succeeded and Refused
	// are those of the former that did, and did not, do what they were asked.
	Answered   int `json:"answered"`
	Unanswered int `json:"unanswered"`
	Succeeded  int `json:"succeeded"`
	Refused    int `json:"refused"`
	// RPCErrno is the first node's that did not answer, Errno the first's that
	// refused.
	RPCErrno syscall.Errno `json:"rpc_errno,omitempty"`
	Errno    syscall.Errno `json:"errno,omitempty"`
}

// OK tells whether all nodes did what they were asked.
func (r *Result) OK() bool { return r.Unanswered == 0 && r.Refused == 0 }

// NodeResult is what came of asking one node. RPC says why it has not answered;
// else Status is its answer, and the rest describes what it said.
type NodeResult struct {
	ID     lnet.ProcessID `json:"id"`
	State  State          `json:"state"`
	RPC    syscall.Errno  `json:"rpc,omitempty"`
	Status syscall.Errno  `json:"status,omitempty"`
	// Session is the one that the node is in; nil: in none.
	Session *SessionRef `json:"session,omitempty"`
	// Active are, after a query, running tests of a batch, or units of a test.
	Active uint32 `json:"active,omitempty"`
	// Success tells whether the node did what it was asked.
	Success bool `json:"success"`
}

// SessionRef names a session that a node is in. Nodes tell the name only when
// they are asked for it, and when they are busy.
type SessionRef struct {
	// NID is the console's, as the node tells it.
	NID   message.NID4 `json:"nid"`
	Stamp int64        `json:"stamp"`
	Name  string       `json:"name,omitempty"`
}

// Sum fills in what sums Nodes up.
func (r *Result) Sum() {
	*r = Result{Nodes: r.Nodes}
	for k := range r.Nodes {
		n := &r.Nodes[k]
		switch {
		case n.RPC != 0:
			r.Unanswered++
			if r.RPCErrno == 0 {
				r.RPCErrno = n.RPC
			}
		case n.Success:
			r.Answered++
			r.Succeeded++
		default:
			r.Answered++
			r.Refused++
			if r.Errno == 0 {
				r.Errno = n.Status
			}
		}
	}
}
