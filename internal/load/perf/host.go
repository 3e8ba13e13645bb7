package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote"
)

// hostPoll is how long clients poll before they sleep, in cases with polling.
const hostPoll = 200 * time.Microsecond

// HostConfig configures RunHosted, the measurement of programs whose transfer machines run in lnetd.
type HostConfig struct {
	Config
	// Near and Far are the paths of the client sockets of two lnetd processes, which have the addresses
	// Client and Server. The clients of Near exchange messages with each other, and over TCP with the
	// clients of Far.
	Near, Far string
	// Own is the address of the node in the measuring process.
	Own netip.Addr
	// Hosts are the near and the far lnetd, which also run ServeCosts. The costs of one that is nil are not counted.
	Hosts [2]*Process
}

// hosts returns the lnetd that exchanges with a near or a far client go through.
func (c *HostConfig) hosts(far bool) []*Process {
	if far {
		return c.Hosts[:]
	}
	return c.Hosts[:1]
}

// DefaultHostConfig returns a configuration that measures on loopback in less than three minutes. The
// sockets are in dir.
func DefaultHostConfig(dir string) HostConfig {
	c := HostConfig{Config: DefaultConfig(), Near: dir + "/near.sock", Far: dir + "/far.sock"}
	c.Own = c.Client.Next().Next()
	c.Rounds, c.Time = 15, 100*time.Millisecond
	return c
}

// at returns the address and the socket path of the far or the near lnetd process.
func (c *HostConfig) at(far bool) (address netip.Addr, socket string) {
	if far {
		return c.Server, c.Far
	}
	return c.Client, c.Near
}

// ServeHost runs the parts of lnetd that messages pass through: a node, and a server for the transfer
// machines of clients. It also runs passive transfer machines without a client. It calls ready when it
// listens, and returns when ctx is done.
func ServeHost(ctx context.Context, c HostConfig, far bool, ready func()) error {
	address, socket := c.at(far)
	o, err := startNode(ctx, &c.Config, address, highCredits)
	if err != nil {
		return err
	}
	s, err := clients.New(clients.Config{Core: inproc.New(o.node), Logger: c.Logger})
	if err != nil {
		return errors.Join(err, o.close())
	}
	l, err := clients.Listen(socket, -1)
	if err != nil {
		return errors.Join(err, o.close())
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if err = o.startEchoes(ctx, tmEchoes, deliveries...); err == nil {
		ready()
		<-ctx.Done()
	}
	last, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(err, s.Close(last), <-served, o.close())
}

// guestEchoes is the TM number of a guest's passive machine for tmhost.Delivery 0. The numbers of a guest's
// machines are above those of the machines in ServeHost.
const guestEchoes = 20

// guest is a client of an lnetd process. It has one domain for machines that sleep and another for
// machines that poll for long, because all machines of a domain poll for the same time.
type guest struct {
	cores             [2]*remote.Core // sleeping, polling
	sleeping, polling tmSite
}

func newGuest(c *HostConfig, far bool) *guest {
	address, socket := c.at(far)
	g := &guest{}
	for k, p := range []*tmSite{&g.sleeping, &g.polling} {
		r := remote.Config{Path: socket, Program: "perf"}
		if k == 1 {
			r.PollTime = hostPoll
		}
		g.cores[k] = remote.New(r)
		*p = tmSite{core: g.cores[k], nid: lnet.NIDFromIP(c.net(), address)}
	}
	return g
}

// siteFor returns the site for machines with a way of delivery.
func (g *guest) siteFor(d tmhost.Delivery) *tmSite {
	if d == tmhost.Poll {
		return &g.polling
	}
	return &g.sleeping
}

func (g *guest) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(g.sleeping.closeMachines(ctx), g.polling.closeMachines(ctx))
}

// ServeGuest runs a passive client of an lnetd process. The near client also answers through the files
// of the plain exchange, and returns when the asking end closes it. The far client also answers over
// plain TCP, and returns when ctx is done.
func ServeGuest(ctx context.Context, c HostConfig, far bool, files PlainFiles, ready func()) (err error) {
	g := newGuest(&c, far)
	defer func() { err = errors.Join(err, g.close()) }()
	for _, d := range deliveries {
		if err := g.siteFor(d).startEchoes(ctx, guestEchoes, d); err != nil {
			return fmt.Errorf("through lnetd: %w", err)
		}
	}
	if far {
		return serveFloor(ctx, c.Config, ready)
	}
	ready()
	return answerPlain(files)
}
