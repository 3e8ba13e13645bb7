package simulation

import (
	"fmt"
	"io"
	"time"

	"github.com/lnetd/lnetd/node"
)

// Fault is a kind of fault that a scenario can have.
type Fault uint8

// Kinds of faults. A scenario counts a fault when the fault has an effect, not when the scenario
// requests it.
const (
	FaultCut             Fault = iota // a stream ends at some byte
	FaultHalfClose                    // one direction of a stream ends, and later bytes are lost
	FaultStall                        // a direction of a stream with bytes in it stalls
	FaultReset                        // a stream is reset
	FaultPartition                    // two nodes are separated in both directions
	FaultOneWay                       // two nodes are separated in one direction
	FaultSlow                         // a node receives slowly
	FaultRace                         // two nodes connect to each other at the same moment
	FaultLostReply                    // a GET was served, and the answer was lost
	FaultLostAck                      // a PUT was delivered, and its ACK was lost
	FaultRestart                      // a node comes back with a new incarnation
	FaultDuplicateCookie              // a restarted node uses a handle of its former life
	FaultStaleAnswer                  // a restarted node receives an answer to a request of its former life
	FaultLinkDown                     // a device is down
	FaultNIRemoved                    // an NI is removed under traffic and added again
	FaultWallJump                     // the wall clock jumped between two readings
	FaultUnhealthy                    // an NI or a peer NI is in bad health
	FaultPeerRemoved                  // a peer was deleted, and configured again if it had been configured
	FaultNISet                        // an NI was added or removed for good
	FaultSwitched                     // discovery was switched off, on or to verify
	FaultForced                       // the program requested a discovery, even if the peer was up to date
	FaultUndiscovered                 // a requested discovery failed
	FaultRouterLost                   // a router was restarted
	FaultBuffers                      // a message waits for a router's buffers
	FaultRuleDrop                     // a fault rule discarded a message
	FaultRuleFail                     // a fault rule failed a message that was sent
	FaultRuleDelay                    // a fault rule delayed a message
	FaultCredits                      // a message waits for credits
	FaultUnlinked                     // a target was unlinked under traffic
	FaultLazyCleared                  // messages that waited on a lazy portal were discarded
	FaultNoEntry                      // a message was sent that no entry matches
	FaultSmallMD                      // a message was sent that is too large for its MD
	FaultLazyQueue                    // a message waits for an MD to be posted

	// Faults over RDMA.
	FaultVerbsBroken       // a connection is lost, with all operations in progress
	FaultVerbsCut          // two nodes are separated in both directions
	FaultVerbsOneWay       // two nodes are separated in one direction
	FaultVerbsRace         // two nodes connect to each other at the same moment
	FaultVerbsLost         // a message is lost and retransmitted
	FaultVerbsStalled      // a message finds no path or no receiver
	FaultVerbsRetried      // a device exhausts its retries without an acknowledgement
	FaultVerbsNotReady     // a message finds no posted receive
	FaultVerbsNotReadyLong // a device exhausts its retries without a posted receive
	FaultVerbsFailed       // a request fails at the peer's device
	FaultVerbsCMLost       // a message of the connection manager is lost
	FaultVerbsStale        // the connection manager rejects a request as one of an old connection
	FaultVerbsRejected     // a request is rejected, for any reason
	FaultVerbsUnreachable  // a connection attempt fails because the peer is unreachable
	FaultVerbsEarly        // a message arrives before the connection is established
	FaultVerbsRemoved      // a device is removed, and another one gets its address
	FaultVerbsMoved        // the path to a device's address changes
	FaultVerbsPortDown     // a port is down
	FaultVerbsKilled       // a process dies, and its kernel notifies peers
	FaultVerbsCrashed      // a host dies, without notice to peers
	faultKinds
)

var faultNames = [faultKinds]string{
	"cut", "half close", "stall", "reset", "partition", "one-way partition", "slow receiver",
	"connection race", "lost reply", "lost ack", "restart", "duplicate cookie", "stale answer", "link down",
	"NI removed", "wall-clock jump", "bad health", "peer removed", "NI set changed", "discovery switched", "discovered by hand", "discovery failed", "router restarted", "router buffers", "rule: drop", "rule: fail", "rule: delay", "credit starvation", "target unlinked", "lazy portal cleared", "no entry", "small MD", "lazy queue",
	"RDMA: connection lost", "RDMA: cut", "RDMA: one-way cut", "RDMA: connection race", "RDMA: message lost", "RDMA: message stalled",
	"RDMA: not acknowledged", "RDMA: receiver not ready", "RDMA: never ready", "RDMA: request failed", "RDMA: CM message lost",
	"RDMA: CM says stale", "RDMA: rejected", "RDMA: unreachable", "RDMA: early message", "RDMA: device removed", "RDMA: address moved",
	"RDMA: port down", "RDMA: process killed", "RDMA: host crashed",
}

func (f Fault) String() string { return faultNames[f] }

// Faults lists all kinds of faults.
func Faults() []Fault {
	all := make([]Fault, faultKinds)
	for k := range all {
		all[k] = Fault(k)
	}
	return all
}

// Report counts what happened in one or more scenarios.
type Report struct {
	Scenarios int
	Simulated time.Duration

	// Counts of calls and events.
	Operations, Refused uint64
	Sent, SendFailed    uint64 // SEND events
	Puts, Gets          uint64 // at the target
	Broken, Truncated   uint64 // at the target: received in part, or truncated
	Acks, Replies       uint64
	Expired             uint64 // MDs that a response tracker unlinked
	Pings, PingsFailed  uint64
	Retried             uint64 // repetitions of messages and exchanges that must succeed after the faults
	Views               uint64 // comparisons of what a node knows about a peer with the peer itself
	Violations          int
	Faults              [faultKinds]uint64
	Actions             [actionKinds]uint64 // actions of transfer machines
	Nodes               node.Counters       // summed over all lives
}

// add adds the counters of one node.
func (r *Report) add(c node.Counters) {
	n := &r.Nodes
	n.CommittedMax = max(n.CommittedMax, c.CommittedMax)
	n.Sent += c.Sent
	n.Received += c.Received
	n.Dropped += c.Dropped
	n.Resent += c.Resent
	n.FailedResends += c.FailedResends
	n.SuccessfulResends += c.SuccessfulResends
	n.ResponseTimeouts += c.ResponseTimeouts
	n.LocalInterrupts += c.LocalInterrupts
	n.LocalDropped += c.LocalDropped
	n.LocalAborted += c.LocalAborted
	n.LocalNoRoute += c.LocalNoRoute
	n.LocalTimeouts += c.LocalTimeouts
	n.LocalErrors += c.LocalErrors
	n.RemoteDropped += c.RemoteDropped
	n.RemoteErrors += c.RemoteErrors
	n.RemoteTimeouts += c.RemoteTimeouts
	n.NetworkTimeouts += c.NetworkTimeouts
	n.SentBytes += c.SentBytes
	n.ReceivedBytes += c.ReceivedBytes
	n.Routed += c.Routed
	n.RoutedBytes += c.RoutedBytes
}

// Add adds the counts of another report to r.
func (r *Report) Add(o *Report) {
	r.Scenarios += o.Scenarios
	r.Simulated += o.Simulated
	r.Operations += o.Operations
	r.Refused += o.Refused
	r.Sent += o.Sent
	r.SendFailed += o.SendFailed
	r.Puts += o.Puts
	r.Gets += o.Gets
	r.Broken += o.Broken
	r.Truncated += o.Truncated
	r.Acks += o.Acks
	r.Replies += o.Replies
	r.Expired += o.Expired
	r.Pings += o.Pings
	r.PingsFailed += o.PingsFailed
	r.Retried += o.Retried
	r.Views += o.Views
	r.Violations += o.Violations
	for k := range r.Faults {
		r.Faults[k] += o.Faults[k]
	}
	for k := range r.Actions {
		r.Actions[k] += o.Actions[k]
	}
	r.add(o.Nodes)
}

// Missing lists the faults that never had an effect.
func (r *Report) Missing() []Fault {
	var missing []Fault
	for _, f := range Faults() {
		if r.Faults[f] == 0 {
			missing = append(missing, f)
		}
	}
	return missing
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) {
	line := func(name string, v any) { fmt.Fprintf(w, "  %-24s %v\n", name, v) }
	fmt.Fprintf(w, "simulation: %d seeds, %v simulated, %d violations\n",
		r.Scenarios, r.Simulated.Round(time.Second), r.Violations)
	line("operations", r.Operations)
	line("refused", r.Refused)
	line("SEND, failed", fmt.Sprint(r.Sent+r.SendFailed, ", ", r.SendFailed))
	line("PUT, ACK", fmt.Sprint(r.Puts, ", ", r.Acks))
	line("GET, REPLY", fmt.Sprint(r.Gets, ", ", r.Replies))
	line("truncated, broken off", fmt.Sprint(r.Truncated, ", ", r.Broken))
	line("responses overdue", r.Expired)
	line("pings, failed", fmt.Sprint(r.Pings, ", ", r.PingsFailed))
	line("tried again at the end", r.Retried)
	line("views compared", r.Views)
	n := &r.Nodes
	line("messages sent", fmt.Sprintf("%d, %d bytes", n.Sent, n.SentBytes))
	line("messages received", fmt.Sprintf("%d, %d bytes", n.Received, n.ReceivedBytes))
	line("messages routed", fmt.Sprintf("%d, %d bytes", n.Routed, n.RoutedBytes))
	line("messages dropped", n.Dropped)
	line("resent", fmt.Sprintf("%d, %d successful, %d given up", n.Resent, n.SuccessfulResends, n.FailedResends))
	line("local failures", fmt.Sprintf("%d dropped, %d aborted, %d timeout, %d error",
		n.LocalDropped, n.LocalAborted, n.LocalTimeouts, n.LocalErrors))
	line("remote failures", fmt.Sprintf("%d dropped, %d timeout, %d error, %d network timeout",
		n.RemoteDropped, n.RemoteTimeouts, n.RemoteErrors, n.NetworkTimeouts))
	fmt.Fprintf(w, "faults that bit\n")
	for _, f := range Faults() {
		line(f.String(), r.Faults[f])
	}
	fmt.Fprintf(w, "transfer machines\n")
	for d, n := range r.Actions {
		line(Action(d).String(), n)
	}
}

// Result is the result of one Run.
type Result struct {
	Report
	Seed uint64
	// Failures describes the violations, but not more than the first 20.
	Failures []string
	// Trace writes the trace of the scenario.
	Trace io.WriterTo
}
