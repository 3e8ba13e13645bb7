package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Domain is the owner of TMs, buffers and pools. A TM can only move buffers of its own domain (transport
// 3.3). NewDomain creates a domain. All methods are safe for concurrent use.
type Domain struct {
	core   Core
	inner  CoreDomain
	limits Limits

	mu      orderedMutex[domainRank] // guards the fields below
	closed  bool
	tms     map[*TransferMachine]struct{}
	buffers int // registered buffers, and buffers being registered or allocated
	pools   int
}

// NewDomain creates a domain on a Core. It may block until ctx ends. It returns the error of Core.Open.
func NewDomain(ctx context.Context, c Core) (*Domain, error) {
	inner, err := c.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("transport: open domain on %s: %w", c.Name(), withErrno(err))
	}
	d := &Domain{core: c, inner: inner, limits: inner.Limits(), tms: make(map[*TransferMachine]struct{})}
	d.limits.Confine = d.limits.Confine && canConfine
	return d, nil
}

// Close closes the domain. It returns EBUSY if the domain still has TMs, pools, registered buffers, or
// deregistered buffers whose memory was not freed. It returns EINVAL if the domain is closed, and otherwise
// the error of the Core, if any. After an error the domain is unchanged.
func (d *Domain) Close() error {
	d.mu.Lock()
	if err := d.open(); err != nil {
		d.mu.Unlock()
		return err
	}
	if len(d.tms) > 0 || d.buffers > 0 || d.pools > 0 {
		err := fmt.Errorf("transport: close domain: %d TMs, %d buffers and %d pools are still open: %w",
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

// Limits returns the limits of the Core. They are constant, except that DescriptorSize grows when the host
// gets its first large NID. A TM never creates descriptors longer than DescriptorSize was when the TM
// started.
func (d *Domain) Limits() Limits {
	l := d.limits
	l.DescriptorSize = d.inner.Limits().DescriptorSize
	return l
}

// NIDs returns the NIDs of this host, including loopback. TMs can be started at each of them.
func (d *Domain) NIDs(ctx context.Context) ([]lnet.NID, error) {
	nids, err := d.inner.NIDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("transport: local NIDs: %w", withErrno(err))
	}
	return nids, nil
}

// withErrno adds ECANCELED or ETIMEDOUT to err if err wraps the error of a context, because every error of
// the package must match an errno. It is applied to the error of every call that takes a context.
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

// errClosed is returned by calls on a closed domain.
var errClosed = fmt.Errorf("transport: the domain is closed: %w", syscall.EINVAL)

// open checks that the domain is open. It returns errClosed if it is not. mu is held.
func (d *Domain) open() error {
	if d.closed {
		return errClosed
	}
	return nil
}

// addBuffer counts a buffer, so that the domain cannot be closed until removeBuffer is called. It returns
// errClosed if the domain is closed.
func (d *Domain) addBuffer() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		return err
	}
	d.buffers++
	return nil
}

// removeBuffer reverts addBuffer.
func (d *Domain) removeBuffer() {
	d.mu.Lock()
	d.buffers--
	d.mu.Unlock()
}

// Open creates a TM, starts it at address, and waits until it is StateStarted. callback may be nil; see
// NewTM. Open calls the prepare functions before the start, for example to call AttachPool or Confine. A
// prepare function can be a method expression such as (*TransferMachine).DeliverSynchronously. Shutdown ends
// the TM. Open returns the error of NewTM, of a prepare function, of Start or of ctx, or the reason why the
// TM failed; the TM is then closed.
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
