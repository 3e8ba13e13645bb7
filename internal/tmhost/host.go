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
	// DefaultPort is the port of nodes, over TCP and RDMA, unless another one is given.
	DefaultPort = 9988
	// closeTime bounds what has to be undone when something has failed.
	closeTime = 10 * time.Second
)

// Config says what a Host stands on.
type Config struct {
	// Type is "lnet", a node of its own, "mem", memory of this process, or "lnetd", one that
	// runs.
	Type string
	// NID is, of lnet, the node's, on a tcp or o2ib net; "": that of the first usable interface; Loopback:
	// it has only 0@lo, and reaches no other node. Of lnetd it is one that lnetd has; "": the
	// first one on the net of the NID Near, or the first one.
	NID, Near string
	// Through is the socket of lnetd; "": remote.FindSocket's. Poll has lnetd look for work
	// before it sleeps.
	Through string
	Poll    bool
	// Port is the TCP port, or that over RDMA, that the node listens on, and calls others at; 0: DefaultPort.
	// Below 1024 it is as kernels want it: callers have privileged ports.
	Port int
	// PeerCredits are the messages under way to one peer at most; 0: the driver's default.
	PeerCredits int
	// Logger receives the node's log; nil discards.
	Logger *slog.Logger

	memory *mem.Network
}

// Loopback is the NID that every host has.
const Loopback = "0@lo"

// Host is a domain, and what it stands on.
type Host struct {
	Domain *transport.Domain
	// NID is where transfer machines can be started; that of loopback if there is no other.
	NID lnet.NID
	// Events is for how many events of buffers a transfer machine has room; 0: any number.
	Events int

	node    *node.Node
	closers []func() error // of the driver and what it stands on, in the order in which they were opened
}

// Open opens a host. It may block until ctx ends.
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
		err = fmt.Errorf("transport %q is none of lnet, mem, lnetd: %w", c.Type, syscall.EINVAL)
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

// OpenPair opens two hosts that reach each other, as c says but with NIDs of their own; if
// these are equal, or the second one is "", both are one host. With lnetd they are two
// domains in any case, as two programs would have.
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

// openMemory makes a host on a network in memory.
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

// findNID finds where transfer machines can be started.
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

// firstNID is the first NID that is not loopback, else loopback (transport 10.1).
func firstNID(nids []lnet.NID) lnet.NID {
	if k := slices.IndexFunc(nids, func(n lnet.NID) bool { return !n.IsLoopback() }); k >= 0 {
		return nids[k]
	}
	return lnet.LoopbackNID
}

// settlePings is how many pings Settle sends: no less than there are connections.
const settlePings = 8

// Settle waits until the node of a NID has read what was sent to it before, or ctx ends.
// Who closes a host before may lose it: a node that sees one connection end closes all
// with the peer. Pings go by one connection after the other, behind what is on them.
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

// Close ends the host; its transfer machines are closed and its buffers freed.
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

// CheckAddress says what is wrong with the text of an end point.
func CheckAddress(s string) error {
	_, err := transport.ParseAddress(s)
	return err
}

// Toward is the NID of this host from which a NID on a tcp or o2ib net is reached, by the
// address from which IP would reach it; "" if that is not known.
func Toward(to string) string {
	nid, err := lnet.ParseNID(to)
	if err != nil || nid.Net().Type() != lnet.TypeTCP && nid.Net().Type() != lnet.TypeO2IB {
		return ""
	}
	// Connecting by UDP sends nothing, and chooses the source address.
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
