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

// hostPoll is how long polling sides poll before they sleep, in lnetd and its clients.
const hostPoll = 200 * time.Microsecond

// HostConfig configures the measurement of hosted transfer machines.
type HostConfig struct {
	Config
	// Near and Far are the sockets of the two lnetd processes, which have the addresses Client and
	// Server. Programs of Near exchange messages with each other, and over TCP with those of Far.
	Near, Far string
}

// DefaultHostConfig returns a configuration that measures on loopback, with sockets in dir, in less than
// three minutes.
func DefaultHostConfig(dir string) HostConfig {
	c := HostConfig{Config: DefaultConfig(), Near: dir + "/near.sock", Far: dir + "/far.sock"}
	c.Rounds, c.Time = 15, 100*time.Millisecond
	return c
}

// at returns the address and the socket of one of the two lnetd processes.
func (c *HostConfig) at(far bool) (address netip.Addr, socket string) {
	if far {
		return c.Server, c.Far
	}
	return c.Client, c.Near
}

// ServeHost runs the parts of lnetd that messages pass: a node, and a server for clients' transfer
// machines on it. It also has its own transfer machines that answer. It returns when ctx is done. ready
// is called when it listens.
func ServeHost(ctx context.Context, c HostConfig, far bool, ready func()) error {
	address, socket := c.at(far)
	o, err := startNode(ctx, &c.Config, address, highCredits)
	if err != nil {
		return err
	}
	s, err := clients.New(clients.Config{Core: inproc.New(o.node), PollTime: hostPoll, Logger: c.Logger})
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

// guestEchoes is the number of a guest's first transfer machine, above those of its host.
const guestEchoes = 20

// guest is a program that uses an lnetd. It has one domain for machines that sleep and one for those that
// poll, because lnetd polls per domain.
type guest struct {
	cores           [2]*remote.Core // sleeping, polling
	sleeps, polling tmSite
}

func newGuest(c *HostConfig, far bool) *guest {
	address, socket := c.at(far)
	g := &guest{}
	for k, p := range []*tmSite{&g.sleeps, &g.polling} {
		r := remote.Config{Path: socket, Program: "perf"}
		if k == 1 {
			r.PollTime = hostPoll
		}
		g.cores[k] = remote.New(r)
		*p = tmSite{core: g.cores[k], nid: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), address)}
	}
	return g
}

// place returns the place of machines with a way of delivery.
func (g *guest) place(d tmhost.Delivery) *tmSite {
	if d == tmhost.Poll {
		return &g.polling
	}
	return &g.sleeps
}

func (g *guest) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(g.sleeps.leave(ctx), g.polling.leave(ctx))
}

// ServeGuest runs a program that answers through an lnetd. The near program also answers through files,
// until the asking side ends that. The far program also answers over plain TCP, until ctx is done.
func ServeGuest(ctx context.Context, c HostConfig, far bool, files PlainFiles, ready func()) (err error) {
	g := newGuest(&c, far)
	defer func() { err = errors.Join(err, g.close()) }()
	for _, d := range deliveries {
		if err := g.place(d).startEchoes(ctx, guestEchoes, d); err != nil {
			return fmt.Errorf("through lnetd: %w", err)
		}
	}
	if far {
		return serveFloor(ctx, c.Config, ready)
	}
	ready()
	return answerPlain(files)
}
