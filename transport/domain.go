package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Domain is what TMs, buffers and pools belong to: memory of one can be moved by the TMs
// of the same alone (transport 3.3). NewDomain makes it. All methods are safe for
// concurrent use.
type Domain struct {
	core   Core
	inner  CoreDomain
	limits Limits

	mu      orderedMutex[domainRank] // guards the rest
	closed  bool
	tms     map[*TransferMachine]struct{}
	buffers int // registered, or about to be
	pools   int
}

// NewDomain makes a domain on a Core. It may block until ctx ends, with whatever Core.Open
// does. The error is the Core's.
func NewDomain(ctx context.Context, c Core) (*Domain, error) {
	inner, err := c.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("transport: open domain on %s: %w", c.Name(), withErrno(err))
	}
	d := &Domain{core: c, inner: inner, limits: inner.Limits(), tms: make(map[*TransferMachine]struct{})}
	d.limits.Confine = d.limits.Confine && canConfine
	return d, nil
}

// Close ends it. EBUSY: it has TMs, registered buffers, memory of buffers that were
// deregistered but not freed, or pools yet; EINVAL: it is closed; or the Core's. Nothing has
// happened then.
func (d *Domain) Close() error {
	d.mu.Lock()
	if err := d.open(); err != nil {
		d.mu.Unlock()
		return err
	}
	if len(d.tms) > 0 || d.buffers > 0 || d.pools > 0 {
		err := fmt.Errorf("transport: close domain: %d TMs, %d buffers, %d pools left: %w",
			len(d.tms), d.buffers, d.pools, syscall.EBUSY)
		d.mu.Unlock()
		return err
	}
	d.closed = true
	d.mu.Unlock()
	if err := d.inner.Close(); err != nil {
		d.mu.Lock()
		d.closed = false
		d.mu.Unlock()
		return fmt.Errorf("transport: close domain: %w", err)
	}
	return nil
}

// Limits are the Core's, and stay, but for DescriptorSize, which grows when the host gets its
// first large NID: no TM makes longer ones than it says after its start.
func (d *Domain) Limits() Limits {
	l := d.limits
	l.DescriptorSize = d.inner.Limits().DescriptorSize
	return l
}

// NIDs are those of this host, loopback included: where TMs can be started.
func (d *Domain) NIDs(ctx context.Context) ([]lnet.NID, error) {
	nids, err := d.inner.NIDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("transport: local NIDs: %w", withErrno(err))
	}
	return nids, nil
}

// withErrno gives the error of a call that its ctx has ended an errno, too, as all errors of
// the package have one: ECANCELED, or ETIMEDOUT. What takes a ctx, here or in the Core, goes
// through it.
func withErrno(err error) error {
	for _, ended := range []struct {
		ctx   error
		errno syscall.Errno
	}{{context.Canceled, syscall.ECANCELED}, {context.DeadlineExceeded, syscall.ETIMEDOUT}} {
		if errors.Is(err, ended.ctx) && !errors.Is(err, ended.errno) {
			err = fmt.Errorf("%w (%w)", err, ended.errno)
		}
	}
	return err
}

// errClosed is what a closed domain answers.
var errClosed = fmt.Errorf("transport: the domain is closed: %w", syscall.EINVAL)

// open tells whether the domain is; mu is held.
func (d *Domain) open() error {
	if d.closed {
		return errClosed
	}
	return nil
}

// counted raises the number of buffers, so that the domain stays open.
func (d *Domain) counted() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return err
	}
	d.buffers++
	return nil
}

// uncounted takes back what counted did.
func (d *Domain) uncounted() {
	d.mu.Lock()
	d.buffers--
	d.mu.Unlock()
}

// Open makes a TM, starts it, and waits until it is StateStarted. Callback may be nil.
// Prepare are called in between, for what has to be done before the start: AttachPool,
// Confine, or just (*TransferMachine).DeliverSynchronously. Shutdown ends it. The error is
// what NewTM, one of prepare or Start said, why it failed, or ctx's.
func (d *Domain) Open(
	ctx context.Context, address string, callback func(e *TMEvent), prepare ...func(tm *TransferMachine) error,
) (*TransferMachine, error) {
	tm, err := d.NewTM(callback)
	if err != nil {
		return nil, err
	}
	for _, p := range prepare {
		if err = p(tm); err != nil {
			return nil, errors.Join(err, tm.Close())
		}
	}
	if err = tm.Start(address); err == nil {
		err = tm.Await(ctx, StateStarted)
	}
	if err != nil {
		return nil, errors.Join(err, tm.Shutdown(context.WithoutCancel(ctx)))
	}
	return tm, nil
}
