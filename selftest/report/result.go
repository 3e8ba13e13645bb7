package report

import (
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Result is the result of sending a request to each of a set of nodes (selftest 7.3).
type Result struct {
	Nodes []NodeResult `json:"nodes"`
	// Answered and Unanswered are the numbers of nodes that have replied and that have not. Among those that
	// have replied, Succeeded nodes did what was requested, and Refused nodes did not.
	Answered   int `json:"answered"`
	Unanswered int `json:"unanswered"`
	Succeeded  int `json:"succeeded"`
	Refused    int `json:"refused"`
	// RPCErrno is NodeResult.RPC of the first node that did not reply. Errno is the status of the first node
	// that refused.
	RPCErrno syscall.Errno `json:"rpc_errno,omitempty"`
	Errno    syscall.Errno `json:"errno,omitempty"`
}

// OK reports whether all nodes have replied and did what was requested.
func (r *Result) OK() bool { return r.Unanswered == 0 && r.Refused == 0 }

// NodeResult is the result of sending a request to one node. If the node did not reply, RPC is the reason.
// Otherwise RPC is 0, Status is the status in the reply, and the other fields are set.
type NodeResult struct {
	ID     lnet.ProcessID `json:"id"`
	State  State          `json:"state"`
	RPC    syscall.Errno  `json:"rpc,omitempty"`
	Status syscall.Errno  `json:"status,omitempty"`
	// Session is the session that the node is in, or nil.
	Session *SessionRef `json:"session,omitempty"`
	// Active is set by a query: the number of running tests of the batch, or of running units of the test.
	Active uint32 `json:"active,omitempty"`
	// Success reports whether the node did what was requested.
	Success bool `json:"success"`
}

// SessionRef identifies the session that a node is in. Name is set only in replies to ping, and if the node
// refused a request because it is in another session.
type SessionRef struct {
	// NID is the NID of the console, as reported by the node.
	NID   message.NID4 `json:"nid"`
	Stamp int64        `json:"stamp"`
	Name  string       `json:"name,omitempty"`
}

// Sum computes all other fields of r from Nodes.
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
