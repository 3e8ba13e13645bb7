package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Proxy is attached to lnetd. After Attach, the caller asks for the PIDs of the processes that it carries messages for,
// and then calls Serve. Proxies that need nothing before they open their interface use Run.
type Proxy struct {
	guest  *guest
	conn   *net.UnixConn
	lost   chan struct{} // closed when the connection has ended
	reason error         // why
	ended  chan struct{} // closed when no more orders are read
	err    error         // why, or nil if Serve or Close has ended it
}

// Attach connects to lnetd. It blocks until lnetd has answered, until half a minute has passed, or until ctx is done.
// A *protocol.Failure is lnetd's reason for an error; ENODEV and EAGAIN mean that the NI does not exist yet and that
// the proxy is in quarantine. The caller must call Serve or Close.
func Attach(ctx context.Context, c Config) (*Proxy, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxAhead == 0 {
		c.MaxAhead = lnet.MTU
	}
	conn, attached, ring, area, err := attach(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("proxy: attach to lnetd at %s: %w", c.Socket, err)
	}
	p := &Proxy{
		guest: newGuest(&c, attached, ring, area), conn: conn,
		lost: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		p.reason = p.guest.lost(conn)
		close(p.lost)
		p.guest.ring.Shut()
	}()
	go func() {
		p.err = p.readOrders()
		close(p.ended)
	}()
	return p, nil
}

// NID returns the NID of the NI, which is the proxy's address on its network.
func (p *Proxy) NID() lnet.NID { return p.guest.self }

// AllocatePID returns a new PID that no other proxy of the NI has. The proxy carries messages for it until it ends.
// An error is that of protocol.CauseBusy if there are too many PIDs. AllocatePID and RegisterPID block until lnetd has
// answered, ctx is done, or the connection to lnetd has ended. They can be called concurrently.
func (p *Proxy) AllocatePID(ctx context.Context) (lnet.PID, error) {
	return p.ask(ctx, "allocate a PID", protocol.Entry{Op: protocol.AllocatePID})
}

// RegisterPID makes the proxy carry messages for a PID until it ends. An error is that of protocol.CauseBusy if another
// proxy of the NI has the PID, or if there are too many.
func (p *Proxy) RegisterPID(ctx context.Context, pid lnet.PID) error {
	_, err := p.ask(ctx, fmt.Sprintf("register PID %s", pid), protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: pid}})
	return err
}

// ask asks lnetd for a PID.
func (p *Proxy) ask(ctx context.Context, what string, e protocol.Entry) (lnet.PID, error) {
	var err error
	select {
	case a := <-p.guest.ask(&e):
		if a.cause == protocol.CauseOther {
			return a.pid, nil
		}
		err = a.cause.Err("")
	case <-p.ended:
		if err = p.err; err == nil {
			err = net.ErrClosed
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return 0, fmt.Errorf("proxy: %s: %w", what, err)
}

// Serve opens an interface of a driver and carries messages between it and lnetd until ctx is done. Then it returns
// nil. It returns an error if the driver fails to open the interface or to close it within half a minute, or if the
// connection to lnetd ends; a *protocol.Failure is lnetd's reason. When Serve returns, the proxy is detached, and the
// interface is closed unless the driver has failed to close it. Serve may be called once.
func (p *Proxy) Serve(ctx context.Context, d lnd.Driver) error {
	g := p.guest
	i, err := d.Open(ctx, lnd.Config{
		Net: g.config.Net, NID: g.self, Device: g.config.Device, Tunables: g.config.Tunables, Options: g.config.Options,
		Upper: g, Logger: g.config.Logger,
	})
	if err != nil {
		return errors.Join(err, p.Close())
	}
	g.open(i)
	if _, ok := i.(memory.Registrar); ok {
		err = errors.New("proxy: a driver that moves payload by RDMA cannot be used")
	} else {
		g.report(&protocol.Entry{Op: protocol.Link, Up: i.Link() == lnd.LinkUp})
		if g.config.Attached != nil {
			g.config.Attached(i)
		}
		select {
		case <-ctx.Done():
		case <-p.ended:
		}
	}
	return errors.Join(err, p.end(g.close))
}

// Close ends the connection to lnetd. It must not be called after Serve.
func (p *Proxy) Close() error { return p.end(func() error { return nil }) }

// end stops reading, calls closing, which closes the interface, and releases the connection and the memory. It returns
// why the connection has ended, unless it has been open until now.
func (p *Proxy) end(closing func() error) error {
	g := p.guest
	g.stopping.Store(true)
	g.ring.Completions.Wake()
	<-p.ended
	err := closing()
	g.stop()
	_ = p.conn.Close()
	<-p.lost
	err = errors.Join(p.err, err, g.ring.Close())
	if errors.Is(err, errOpen) {
		return err // the driver may still access the area
	}
	return errors.Join(err, g.area.Close())
}

// readOrders carries out orders until the connection has ended, and returns why.
func (p *Proxy) readOrders() error {
	if err := p.guest.read(); err != nil || p.guest.stopping.Load() {
		return err
	}
	_ = p.conn.SetReadDeadline(time.Now().Add(reasonTimeout))
	<-p.lost
	return p.reason
}
