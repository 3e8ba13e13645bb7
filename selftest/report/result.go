package report

import (
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Result is the result of asking a set of nodes (selftest 7.3).
type Result struct {
	Nodes []NodeResult `json:"nodes"`
	// Answered nodes have replied, Unanswered ones have not. Of the former, Succeeded nodes did what they
	// were asked, Refused ones did not.
	Answered   int `json:"answered"`
	Unanswered int `json:"unanswered"`
	Succeeded  int `json:"succeeded"`
	Refused    int `json:"refused"`
	// RPCErrno is the errno of the first node that did not answer. Errno is that of the first node that
	// refused.
	RPCErrno syscall.Errno `json:"rpc_errno,omitempty"`
	Errno    syscall.Errno `json:"errno,omitempty"`
}

// OK reports whether all nodes did what they were asked.
func (r *Result) OK() bool { return r.Unanswered == 0 && r.Refused == 0 }

// NodeResult is the result of asking one node. If the node did not answer, RPC is the reason. Otherwise
// Status is the status of its answer, and the other fields are set.
type NodeResult struct {
	ID     lnet.ProcessID `json:"id"`
	State  State          `json:"state"`
	RPC    syscall.Errno  `json:"rpc,omitempty"`
	Status syscall.Errno  `json:"status,omitempty"`
	// Session is the session that the node is in, or nil.
	Session *SessionRef `json:"session,omitempty"`
	// Active is, after a query, the number of running tests of a batch or of units of a test.
	Active uint32 `json:"active,omitempty"`
	// Success reports whether the node did what it was asked.
	Success bool `json:"success"`
}

// SessionRef identifies the session that a node is in. Nodes send the name only if they are asked for it,
// or if they are busy.
type SessionRef struct {
	// NID is the NID of the console, as reported by the node.
	NID   message.NID4 `json:"nid"`
	Stamp int64        `json:"stamp"`
	Name  string       `json:"name,omitempty"`
}

// Sum computes all other fields from Nodes.
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
