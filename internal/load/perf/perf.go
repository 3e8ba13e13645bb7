package perf

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest"
)

// Config defines where and how long to measure.
type Config struct {
	// Server and Client are the addresses of the two nodes. They are local to the host and must differ.
	Server, Client netip.Addr
	// RDMA selects RDMA between nodes in place of TCP. The addresses are then those of RDMA devices.
	RDMA bool
	// Port is the TCP or RDMA port of the nodes. The plain server listens on Port+1.
	Port int
	// Rounds is the number of rounds per case, and Time is the approximate length of a round. Many short
	// rounds, alternating between lnetd and plain TCP, give reliable ratios on a noisy machine.
	Rounds int
	Time   time.Duration
	// first is the number of exchanges in the first round of a case, which no other round goes below. 0
	// means the usual number. Tests make fewer, because each may take milliseconds on a busy machine.
	first int
	// Only selects the cases to measure by name. nil means all.
	Only *regexp.Regexp
	// Passive is the process that runs Serve and ServeCosts. If it is nil, the costs of that process are
	// not measured.
	Passive *Process
	// Settings change the defaults of all nodes.
	Settings []Setting
	// Logger receives the logs of the nodes. If it is nil, they are discarded.
	Logger *slog.Logger
}

// DefaultConfig returns a configuration that measures all cases on loopback in four or five minutes.
func DefaultConfig() Config {
	return Config{
		Server: netip.AddrFrom4([4]byte{127, 0, 0, 3}),
		Client: netip.AddrFrom4([4]byte{127, 0, 0, 2}),
		Port:   9988,
		Rounds: 21,
		Time:   150 * time.Millisecond,
	}
}

// net returns the net of the nodes.
func (c *Config) net() lnet.Net {
	if c.RDMA {
		return lnet.MakeNet(lnet.TypeO2IB, 0)
	}
	return lnet.MakeNet(lnet.TypeTCP, 0)
}

// plainAddress returns the address and port of the plain server.
func (c *Config) plainAddress() string {
	return netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String()
}

// highCredits is the number of peer credits in cases in which credits must not limit 64 messages in
// flight.
const highCredits = 64

// Serve runs the passive side of a measurement: a node with MDs, transfer machines and a selftest agent,
// and the plain server. It calls ready when it listens, and returns when ctx is done.
func Serve(ctx context.Context, c Config, ready func()) error {
	o, err := startNode(ctx, &c, c.Server, highCredits)
	if err != nil {
		return err
	}
	if err = o.attach(); err == nil {
		err = o.startEchoes(ctx, tmEchoes, deliveries...)
	}
	var a *selftest.Agent
	if err == nil {
		a, err = selftest.Enable(o.node, selftest.Config{Logger: c.Logger})
	}
	if err == nil {
		err = serveFloor(ctx, c, ready)
		last, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		err = errors.Join(err, a.Close(last))
	}
	return errors.Join(err, o.close())
}

func serveFloor(ctx context.Context, c Config, ready func()) error {
	l, err := net.Listen("tcp", c.plainAddress())
	if err != nil {
		return err
	}
	ready()
	return floorServer(ctx, l)
}
