package diagnosis

import (
	"net/netip"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Facts are what is known about a node, its host and a peer. A part that is nil is not known.
type Facts struct {
	// Unreachable is the error of asking lnetd. It is nil if lnetd answered.
	Unreachable *api.Fault
	// Stuck names the internal loops that make no progress, as lnetd reports. It may be known although lnetd does
	// not answer other questions.
	Stuck string
	// Start is what prevents a start of lnetd. It is only set if no lnetd answers.
	Start *Start
	// Node is what lnetd has answered.
	Node *Node
	// Host is the host of lnetd, in the same network namespace. HostUnknown is the reason why it is nil.
	Host        *Host
	HostUnknown string
	// Peer is the node that the operator asked about.
	Peer *Peer
}

// Start is the result of a check of a start of lnetd.
type Start struct {
	// Program is the path of the program that was checked. It is empty if none was found.
	Program string
	// Check is the result of "lnetd --check --json". It is nil if the program could not check, for the reason
	// in Error.
	Check *api.Check
	Error string
}

// Node is what lnetd reports about itself.
type Node struct {
	Version api.Version
	// Down reports whether LNet is not configured. Only Version and Clients are known then.
	Down    bool
	Nets    api.Nets
	Peers   []api.Peer
	Routes  []api.Route
	Routing api.Routing
	Globals api.Globals
	Clients api.Clients
}

// Host is what lnetd depends on.
type Host struct {
	Interfaces []Interface
	// Files are the file descriptors of lnetd. Limit is 0 if it is not known.
	Files Files
	// Locked is the memory that lnetd has locked, and Lockable its limit in bytes. Lockable is 0 if there is no
	// limit, or it is not known.
	Locked, Lockable uint64
	// Started is the time at which lnetd was started, by the clock now. It is zero if it is not known.
	Started time.Time
	// Disks are the file systems in which lnetd has files.
	Disks []Disk
	// Claims are the addresses of NIs that other hosts have, too.
	Claims []Claim
	// Skips are the examinations of the host that were not possible.
	Skips []Skip
}

// Claim is an answer to the question which hosts have an address.
type Claim struct {
	// Interface is the interface of this host on which the other host has answered.
	Interface string
	Address   netip.Addr
	// Hardware is the hardware address of the other host.
	Hardware string
}

// Interface is a network interface of the host.
type Interface struct {
	Name string
	// On reports whether the interface is switched on, and Carrier whether it also has a carrier.
	On, Carrier, Loopback bool
	MTU                   int
	Addrs                 []netip.Addr
}

// Files are the file descriptors of a process: how many are open, and how many may be.
type Files struct{ Open, Limit int }

// Disk is the file system of a directory. Free is the number of bytes that users other than root can still write.
type Disk struct {
	Path string
	Free uint64
}

// Peer is what was found out about a node by asking it.
type Peer struct {
	NID lnet.NID
	// Ping is the result of an LNet ping of NID. Rails are the results for the other NIDs of the peer on nets of
	// this node.
	Ping  api.PingResult
	Rails []api.PingResult
	// Known is what this node knows about the peer after the ping, or nil.
	Known *api.Peer
	// Elsewhere is a NID with the same address on another net of this node that answers a ping although NID does
	// not, or zero.
	Elsewhere lnet.NID
	// Path is the path that a ping takes. It is nil if there is none.
	Path *api.Path
	// Traffic is the path that other messages take, with the reasons.
	Traffic *api.Explanation
	// Claims are the hosts that have the address of the peer. If there are several, Aliases are those that have
	// its other addresses.
	Claims, Aliases []Claim
	// Skips are the examinations of the peer that were not possible for reasons of this host.
	Skips []Skip
	// TCP is the result of probes from this host. It is nil if the NID is not on a TCP net of this node.
	TCP *TCP
}

// NIDs returns the NIDs of the peer that it reports or, if it does not answer, that this node knows.
func (p *Peer) NIDs(n *Node) (nids []lnet.NID) {
	if len(p.Ping.NIDs) > 0 {
		return p.Ping.NIDs
	}
	for k := range n.Peers {
		if !slices.ContainsFunc(n.Peers[k].NIs, func(i api.PeerNI) bool { return i.NID == p.NID }) {
			continue
		}
		for _, i := range n.Peers[k].NIs {
			nids = append(nids, i.NID)
		}
	}
	return nids
}

// Reply is the result of a probe.
type Reply string

// The results of probes.
const (
	// Answered means that the other host has answered: it accepts the connection, or sent the packet back.
	Answered Reply = "answered"
	// Refused means that the other host, or a firewall, has refused the probe explicitly.
	Refused Reply = "refused"
	// Silent means that there was no answer in time.
	Silent Reply = "silent"
	// NoPath means that the network reports that the other host cannot be reached.
	NoPath Reply = "no path"
	// Untried means that the probe was not made, or that its result means nothing.
	Untried Reply = ""
)

// TCP is the result of probes of a host with the means of IP.
type TCP struct {
	// At is the address and the port at which the peer's LNet should listen.
	At netip.AddrPort
	// Connect is the result of a connection attempt to At. Detail is the text of its error, if any.
	Connect Reply
	Detail  string
	// Small is the result of small packets that need no listener, and Large that of packets of LargeBytes, the
	// size of those that TCP sends to At when it has enough data.
	Small, Large Reply
	LargeBytes   int
}
