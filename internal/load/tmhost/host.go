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
	// closeTime limits the cleanup after a failure.
	closeTime = 10 * time.Second
)

// Config configures a Host.
type Config struct {
	// Type is "lnet" for a host with its own node, "mem" for a network in the memory of this process, or
	// "lnetd" for a running lnetd.
	Type string
	// NID depends on Type. For "lnet", it is the NID of the node on a tcp or o2ib net. If empty, that of
	// the first usable interface is used. Loopback means a node with only 0@lo, which reaches no other
	// node. For "lnetd", NID is one of lnetd's NIDs. If empty, the first one on the net of the NID Near
	// is used, or else the first one.
	NID, Near string
	// Through is the socket of lnetd. If empty, the result of remote.FindSocket is used. Poll makes lnetd
	// poll for work before it sleeps.
	Through string
	Poll    bool
	// Port is the port, of TCP or RDMA, at which the node listens and connects to others. 0 means
	// DefaultPort. Ports below 1024 behave as in kernels: the source ports of connections are privileged.
	Port int
	// PeerCredits is the maximum number of messages under way to one peer. 0 means the driver's default.
	PeerCredits int
	// Logger receives the node's log. If it is nil, the log is discarded.
	Logger *slog.Logger

	memory *mem.Network
}

// Loopback is the NID that every host has.
const Loopback = "0@lo"

// Host is a domain with the resources that it uses.
type Host struct {
	Domain *transport.Domain
	// NID is the NID at which transfer machines can be started. It is that of loopback if the host has no
	// other.
	NID lnet.NID
	// Events is how many buffer events a transfer machine has room for. 0 means no limit.
	Events int

	node    *node.Node
	closers []func() error // of the driver and its resources, in the order in which they were opened
}

// Open opens a host. It may block until ctx is done.
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

// OpenPair opens two hosts that reach each other, with the given NIDs and otherwise as configured. If the
// NIDs are equal, or the second is empty, both are the same host. With "lnetd" they are always two
// domains, as for two programs.
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

// findNID chooses the NID at which transfer machines can be started.
func (h *Host) findNID(ctx context.Context, c Config) error {
	nids, err := h.Domain.NIDs(ctx)
	if err != nil {
		return err
	}
	if c.Type == "lnetd" {
		h.NID, err = choose(nids, c)
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

// settlePings is how many pings Settle sends. It is at least the number of connections.
const settlePings = 8

// Settle waits until the node with a NID has read everything that was sent to it before, or ctx is done.
// If a host is closed earlier, those messages may be lost: a node closes all connections to a peer when
// one of them ends. Settle sends pings over all connections, and they arrive after the earlier messages.
func (h *Host) Settle(ctx context.Context, to string) {
	nid, err := lnet.ParseNID(to)
	if h.node == nil || err != nil {
		return
	}
	for range settlePings {
		if _, err := h.node.Ping(ctx, lnet.ProcessID{NID: nid}, node.PingOptions{}); err != nil {
			return
		}
	}
}

// Close closes the host. Its transfer machines must be closed and its buffers freed.
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

// Toward returns the NID of this host from which a NID on a tcp or o2ib net is reached, with the source
// address that IP would use. It returns an empty string if that is unknown.
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
