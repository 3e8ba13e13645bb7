package remote

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Settling is a Core whose ops have begun when Submit returns, as they have with others: what
// tests of two TMs take for granted.
type Settling struct{ *Core }

// Open makes what a domain stands on.
func (c Settling) Open(ctx context.Context) (transport.CoreDomain, error) {
	d, err := c.Core.Open(ctx)
	if err != nil {
		return nil, err
	}
	return settlingDomain{d.(*domain)}, nil
}

type settlingDomain struct{ *domain }

func (d settlingDomain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	t, err := d.domain.startTM(ctx, a, completions)
	if err != nil {
		return nil, err
	}
	return settlingTM{t}, nil
}

type settlingTM struct{ *tm }

func (t settlingTM) Submit(ops []transport.Op) (int, error) {
	n, err := t.tm.Submit(ops)
	t.settle()
	return n, err
}

// Settle returns when lnetd has carried out what was submitted to a TM.
func Settle(t transport.CoreTM) { t.(*tm).settle() }

// settle returns when lnetd has carried out what was submitted before: it has taken all of
// it out, and has lain down to sleep since then.
func (t *tm) settle() {
	if !t.gate.enter() {
		return
	}
	defer t.gate.leave()
	for taken, slept := false, uint64(0); !t.over(); {
		host, _ := t.ring.HostStats()
		switch {
		case taken && host.Sleeps > slept:
			return
		case !taken && host.Taken >= t.ring.Submissions.Stats().Put:
			taken, slept = true, host.Sleeps
			t.ring.Submissions.Wake()
		}
		time.Sleep(time.Microsecond) // who yields instead keeps Go from looking for bells
	}
}
