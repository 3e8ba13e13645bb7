package transport

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// endedCore is a Core that returns only the error of a context that has ended, without an errno.
type endedCore struct{ *fakeCore }

func (c endedCore) Open(ctx context.Context) (CoreDomain, error) { return c, ctx.Err() }

func (c endedCore) NIDs(ctx context.Context) ([]lnet.NID, error) { return nil, ctx.Err() }

func (c endedCore) Alloc(ctx context.Context, n int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.fakeCore.Alloc(ctx, n)
}

func (c endedCore) Register(ctx context.Context, segments [][]byte, token any) (CoreBuffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.fakeCore.Register(ctx, segments, token)
}

// callsWithCtx has all calls of the package that take a context, except those that wait with Await.
var callsWithCtx = map[string]func(ctx context.Context, core endedCore, d *Domain) error{
	"NewDomain": func(ctx context.Context, core endedCore, _ *Domain) error {
		_, err := NewDomain(ctx, core)
		return err
	},
	"NIDs": func(ctx context.Context, _ endedCore, d *Domain) error {
		_, err := d.NIDs(ctx)
		return err
	},
	"Register": func(ctx context.Context, _ endedCore, d *Domain) error {
		return d.Register(ctx, NewBuffer(make([]byte, 1)))
	},
	"Buffer": func(ctx context.Context, _ endedCore, d *Domain) error {
		_, err := d.Buffer(ctx, 1)
		return err
	},
	"Provision": func(ctx context.Context, _ endedCore, d *Domain) error {
		p, err := d.NewPool(PoolConfig{Segments: 1, SegmentSize: 1})
		if err != nil {
			return err
		}
		_, err = p.Provision(ctx, 1)
		return errors.Join(err, p.Close())
	},
	"Open": func(ctx context.Context, core endedCore, d *Domain) error {
		core.start = func(start context.Context, _ Address) error {
			<-start.Done()
			return start.Err()
		}
		_, err := d.Open(ctx, address, nil)
		return err
	},
	"start": func(ctx context.Context, core endedCore, d *Domain) error {
		core.start = func(context.Context, Address) error { return ctx.Err() }
		_, err := d.Open(context.Background(), address, nil)
		return err
	},
}

// A call ended by its context returns the context's error and an errno, even if the Core returns only the
// former.
//
// transport 3.16
func TestContextErrorsHaveErrno(t *testing.T) {
	for name, call := range callsWithCtx {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core := endedCore{newFakeCore()}
				d, err := NewDomain(context.Background(), core)
				if err != nil {
					t.Fatal(err)
				}
				cancelled, cancel := context.WithCancel(context.Background())
				cancel()
				late, cancel := context.WithDeadline(context.Background(), time.Now())
				defer cancel()
				if err := call(cancelled, core, d); !errors.Is(err, context.Canceled) || !errors.Is(err, syscall.ECANCELED) {
					t.Errorf("cancelled: %v", err)
				}
				if err := call(late, core, d); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ETIMEDOUT) {
					t.Errorf("too late: %v", err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
