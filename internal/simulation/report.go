package simulation

import (
	"fmt"
	"io"
	"time"

	"github.com/lnetd/lnetd/node"
)

// Fault is a kind of fault.
type Fault uint8

// The kinds. Each counts when it bites, not when it is ordered.
const (
	FaultCut             Fault = iota // a stream ends at some byte
	FaultHalfClose                    // one direction of a stream ends, and what comes after vanishes
	FaultStall                        // a direction of a stream with bytes in it stands still
	FaultReset                        // a stream is reset
	FaultPartition                    // nothing passes between two nodes
	FaultOneWay                       // nothing passes in one direction
	FaultSlow                         // a node takes what is sent to it slowly
	FaultRace                         // two nodes call each other at the same moment
	FaultLostReply                    // a GET was served, and the answer is lost
	FaultLostAck                      // a PUT was delivered, and the acknowledgement is lost
	FaultRestart                      // a node comes back with a new incarnation
	FaultDuplicateCookie              // a node comes back and uses a handle of its former life
	FaultStaleAnswer                  // such a node takes an answer meant for its former life
	FaultLinkDown                     // a node sees that a device is down
	FaultNIRemoved                    // an NI is removed under traffic, and added again
	FaultWallJump                     // the wall clock has jumped when it is read
	FaultUnhealthy                    // an NI or a peer NI is seen in bad health
	FaultPeerRemoved                  // a peer is deleted by hand, and configured again if it was
	FaultNISet                        // an NI came or went for good
	FaultSwitched                     // discovery was switched off, on or to verify
	FaultForced                       // a peer was discovered by hand, whatever was known
	FaultUndiscovered                 // such a discovery failed
	FaultRouterLost                   // a router was restarted
	FaultBuffers                      // messages wait for a router's buffers
	FaultRuleDrop                     // a fault rule discards a message
	FaultRuleFail                     // a fault rule fails one that is sent
	FaultRuleDelay                    // a fault rule holds one
	FaultCredits                      // messages wait for credits
	FaultUnlinked                     // a target was unlinked under traffic
	FaultLazyCleared                  // messages that waited on a lazy portal were dropped
	FaultNoEntry                      // a message was sent that no entry takes
	FaultSmallMD                      // a message was sent that its MD has no room for
	FaultLazyQueue                    // a message waits for an MD to be posted

	// Over RDMA.
	FaultVerbsBroken       // a connection is lost, with what is under way
	FaultVerbsCut          // nothing passes between two nodes
	FaultVerbsOneWay       // nothing passes in one direction
	FaultVerbsRace         // two nodes call each other at the same moment
	FaultVerbsLost         // a message is lost, and sent again
	FaultVerbsStalled      // a message finds no way, or nobody who takes it
	FaultVerbsRetried      // a device gives up, as nothing is acknowledged
	FaultVerbsNotReady     // a message finds no receive
	FaultVerbsNotReadyLong // a device gives up, as none is posted
	FaultVerbsFailed       // a request fails at the peer's device
	FaultVerbsCMLost       // a message of the connection manager is lost
	FaultVerbsStale        // it rejects a request as that of an old connection
	FaultVerbsRejected     // a request is rejected, by whomever
	FaultVerbsUnreachable  // an attempt to connect is given up
	FaultVerbsEarly        // a message comes before the connection is established
	FaultVerbsRemoved      // a device is taken away, and another one has its address
	FaultVerbsMoved        // another way leads to a device's address
	FaultVerbsPortDown     // a port is down
	FaultVerbsKilled       // a process dies, of which peers are told
	FaultVerbsCrashed      // a host does, of which nobody is
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

// Faults lists the kinds.
func Faults() []Fault {
	all := make([]Fault, faultKinds)
	for k := range all {
		all[k] = Fault(k)
	}
	return all
}

// Report is what happened in one or many scenarios.
type Report struct {
	Scenarios int
	Simulated time.Duration

	// Calls and events.
	Operations, Refused uint64
	Sent, SendFailed    uint64 // SEND events
	Puts, Gets          uint64 // at the target
	Broken, Truncated   uint64 // there too: cut off, or shortened
	Acks, Replies       uint64
	Expired             uint64 // ended by a response tracker
	Pings, PingsFailed  uint64
	Retried             uint64 // attempts beyond the first after the faults
	Views               uint64 // of peers that were compared with what they are
	Violations          int
	Faults              [faultKinds]uint64
	Deeds               [deedKinds]uint64 // of transfer machines
	Nodes               node.Counters     // summed over all lives
}

// add adds the counters of a life.
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

// Add adds another report.
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
	for k := range r.Deeds {
		r.Deeds[k] += o.Deeds[k]
	}
	r.add(o.Nodes)
}

// Missing lists the kinds of fault that never bit.
func (r *Report) Missing() []Fault {
	var missing []Fault
	for _, f := range Faults() {
		if r.Faults[f] == 0 {
			missing = append(missing, f)
		}
	}
	return missing
}

// Print writes the report for people to read.
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
	for d, n := range r.Deeds {
		line(Deed(d).String(), n)
	}
}

// Result is what one Run found.
type Result struct {
	Report
	Seed uint64
	// Failures are the violations, the first of them if there are many.
	Failures []string
	// Trace writes what happened.
	Trace io.WriterTo
}
