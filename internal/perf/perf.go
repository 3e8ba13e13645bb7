package perf

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"time"

	"github.com/lnetd/lnetd/selftest"
)

// Config says where and how long to measure.
type Config struct {
	// Server and Client are the addresses of the two nodes: of the host, and
	// different.
	Server, Client netip.Addr
	// Port is where the nodes listen; Port+1 is the plain server's.
	Port int
	// Rounds is the number of times that each case is measured, Time how long
	// a round of a case takes, roughly. Many short rounds, ours and plain TCP's
	// in turn, make ratios that hold on a noisy machine.
	Rounds int
	Time   time.Duration
	// Only, if not nil, chooses the cases to measure by name.
	Only *regexp.Regexp
	// Passive is the process of Serve, which is asked what it pays (TellCosts); nil: nobody
	// can be asked.
	Passive *Process
	// Settings are those of all nodes that differ from the defaults.
	Settings []Setting
	// Logger receives the nodes' logs; nil discards.
	Logger *slog.Logger
}

// DefaultConfig measures on loopback in four or five minutes.
func DefaultConfig() Config {
	return Config{
		Server: netip.AddrFrom4([4]byte{127, 0, 0, 3}),
		Client: netip.AddrFrom4([4]byte{127, 0, 0, 2}),
		Port:   9988,
		Rounds: 21,
		Time:   150 * time.Millisecond,
	}
}

// plainAddress is where the plain server listens.
func (c *Config) plainAddress() string {
	return netip.AddrPortFrom(c.Server, uint16(c.Port+1)).String()
}

// highCredits are the peer credits of the cases with 64 messages in flight.
const highCredits = 64

// Serve runs the passive side until ctx ends. ready is called when it listens.
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
