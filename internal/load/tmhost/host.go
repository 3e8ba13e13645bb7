package tmhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

const (
	// DefaultPort is the default port of nodes, over TCP and RDMA.
	DefaultPort = 9988
	// closeTime is the time limit for closing a host or loop that could not be opened.
	closeTime = 10 * time.Second
)

// Config configures a Host.
type Config struct {
	// Type is "lnet" for a host with a node in this process, "mem" for a host on a network in memory, or
	// "lnetd" for a client of a running lnetd.
	Type string
	// NID is the NID of the host. For "lnet", it is a NID on a tcp or o2ib net; if it is empty, the node
	// gets the NID of the first usable interface; if it is Loopback, the node has only 0@lo and reaches no
	// other node. For "lnetd", it is one of lnetd's NIDs; if it is empty, the host uses the first NID on
	// the net of the NID Near, or the first NID if no NID is on that net.
	NID, Near string
	// Through is the path of lnetd's client socket. If it is empty, the result of remote.FindSocket is
	// used. Poll requests that lnetd poll for work before it sleeps.
	Through string
	Poll    bool
	// Port is the TCP or RDMA port on which the node listens and to which it connects. 0 means DefaultPort.
	// If it is below 1024, connections also have privileged source ports, as kernels require.
	Port int
	// PeerCredits is the maximum number of messages in flight to one peer. 0 means the driver's default.
	PeerCredits int
	// Logger receives the node's log. If it is nil, the log is discarded.
	Logger *slog.Logger

	memory *mem.Network
}

// Loopback is the NID that every host has.
const Loopback = "0@lo"

// Host is a domain, and the node or connection that it uses.
type Host struct {
	Domain *transport.Domain
	// NID is the NID at which transfer machines can be started. It is 0@lo if the host has no other NID.
	NID lnet.NID
	// Events is the number of buffer events for which a transfer machine has room. 0 means no limit.
	Events int

	node    *node.Node
	closers []func() error // close the driver and its resources; in the order in which these were opened
}

// Open opens a host. The caller must close it. Open may block until ctx is done.
func Open(ctx context.Context, c Config) (*Host, error) {
	h := &Host{}
	var err error
	switch c.Type {
	case "mem":
		err = h.openMemory(ctx, c)
	case "lnet":
		err = h.openLNet(ctx, c)
	case "lnetd":
		err = h.openThrough(ctx, c)
	default:
		err = fmt.Errorf("transport %q is not lnet, mem or lnetd: %w", c.Type, syscall.EINVAL)
	}
	if err == nil {
		err = h.findNID(ctx, c)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

// OpenPair opens two hosts that reach each other, with the given NIDs and otherwise as configured. If
// the NIDs are equal, or second is empty, it opens one host and returns it twice; with Type "lnetd" it
// opens two domains even then, as two programs would have.
func OpenPair(ctx context.Context, c Config, first, second string) (a, b *Host, err error) {
	c.memory = mem.New(mem.Config{})
	c.NID = first
	one := second == "" || second == first
	if a, err = Open(ctx, c); err != nil || one && c.Type != "lnetd" {
		return a, a, err
	}
	if !one {
		c.NID = second
	}
	if b, err = Open(ctx, c); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		return nil, nil, errors.Join(err, a.Close(ctx))
	}
	return a, b, nil
}

// openMemory opens a host on a network in memory.
func (h *Host) openMemory(ctx context.Context, c Config) error {
	if c.memory == nil {
		c.memory = mem.New(mem.Config{})
	}
	var nids []lnet.NID
	if c.NID != "" && c.NID != Loopback {
		nid, err := lnet.ParseNID(c.NID)
		if err != nil {
			return err
		}
		nids = append(nids, nid)
	}
	var err error
	h.Domain, err = transport.NewDomain(ctx, c.memory.Host(nids...))
	return err
}

// findNID sets h.NID.
func (h *Host) findNID(ctx context.Context, c Config) error {
	nids, err := h.Domain.NIDs(ctx)
	if err != nil {
		return err
	}
	if c.Type == "lnetd" {
		h.NID, err = chooseNID(nids, c)
		return err
	}
	h.NID = firstNID(nids)
	return nil
}

// firstNID returns the first NID that is not loopback, or loopback (transport 10.1).
func firstNID(nids []lnet.NID) lnet.NID {
	if k := slices.IndexFunc(nids, func(n lnet.NID) bool { return !n.IsLoopback() }); k >= 0 {
		return nids[k]
	}
	return lnet.LoopbackNID
}

// flushPings is the number of pings that FlushPeer sends. It is at least the number of connections to a
// peer.
const flushPings = 8

// FlushPeer waits until the peer with a NID has read all messages that the host has sent to it, or ctx
// is done. If the host were closed earlier, these messages could be lost, because the peer closes all
// its connections to the host when one of them ends. FlushPeer sends pings over all connections; each
// arrives after the messages that were sent before it. It does nothing if the host has no node.
func (h *Host) FlushPeer(ctx context.Context, to string) {
	nid, err := lnet.ParseNID(to)
	if h.node == nil || err != nil {
		return
	}
	for range flushPings {
		if _, err := h.node.Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{}); err != nil {
			return
		}
	}
}

// Close closes the host. The caller must have closed its transfer machines and freed its buffers.
func (h *Host) Close(ctx context.Context) error {
	var errs []error
	if h.Domain != nil {
		errs = append(errs, h.Domain.Close())
	}
	if h.node != nil {
		errs = append(errs, h.node.Close(ctx))
	}
	for _, c := range slices.Backward(h.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// CheckAddress returns an error if s is not the address of an end point.
func CheckAddress(s string) error {
	_, err := transport.ParseAddress(s)
	return err
}

// Toward returns a NID for this host on the net of the NID to, with the source address that IP uses to
// reach it. It returns an empty string if to is not a NID on a tcp or o2ib net or cannot be reached.
func Toward(to string) string {
	nid, err := lnet.ParseNID(to)
	if err != nil || nid.Net().Type() != lnet.TypeTCP && nid.Net().Type() != lnet.TypeO2IB {
		return ""
	}
	// Connecting a UDP socket sends nothing, but chooses the source address.
	c, err := net.Dial("udp", net.JoinHostPort(nid.IP().String(), strconv.Itoa(DefaultPort)))
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	local, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return ""
	}
	return lnet.NIDFromIP(nid.Net(), local.AddrPort().Addr().Unmap()).String()
}
