package hosting

import (
	"bufio"
	"context"
	"fmt"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// victimKinds are the operations that a victim repeats, by name.
var victimKinds = map[string]func(v *victim) error{
	"receive":      func(v *victim) error { return v.cancelled(transport.MsgRecv) },
	"send":         (*victim).sendMany,
	"passive recv": func(v *victim) error { return v.cancelled(transport.PassiveBulkRecv) },
	"passive send": func(v *victim) error { return v.cancelled(transport.PassiveBulkSend) },
	"active recv":  func(v *victim) error { return v.bulk(transport.PassiveBulkSend, transport.ActiveBulkRecv) },
	"active send":  func(v *victim) error { return v.bulk(transport.PassiveBulkRecv, transport.ActiveBulkSend) },
	"area":         (*victim).areas,
	"register":     (*victim).registrations,
	"TM":           (*victim).machines,
	"connect":      (*victim).connections,
}

// victimBulk is the size of its bulk.
const victimBulk = 1 << 20

// victim repeats one operation until it is killed. It has two TMs, which talk to each other.
type victim struct {
	ctx     context.Context
	order   order
	domain  *transport.Domain
	tms     [2]*transport.TransferMachine
	buffers []*transport.Buffer
	events  chan error
}

// beVictim repeats the operation o.Kind forever.
func beVictim(ctx context.Context, o order, _ *bufio.Scanner) error {
	v := &victim{ctx: ctx, order: o, events: make(chan error, 64)}
	var err error
	if v.domain, err = transport.NewDomain(ctx, remote.New(remote.Config{Path: o.Socket, Program: o.Kind})); err != nil {
		return err
	}
	for i, at := range []string{o.At, o.To} {
		if v.tms[i], err = v.domain.Open(ctx, at, nil); err != nil {
			return err
		}
	}
	var callbacks transport.Callbacks
	for q := range callbacks {
		callbacks[q] = func(e *transport.BufferEvent) {
			if e.Final {
				v.events <- e.Err
			}
		}
	}
	for range 8 {
		b, err := v.domain.Buffer(ctx, victimBulk)
		if err != nil {
			return err
		}
		b.Callbacks, b.Length, b.MinReceiveSize, b.MaxMessages = &callbacks, victimBulk, 4096, 4
		v.buffers = append(v.buffers, b)
	}
	step := victimKinds[o.Kind]
	fmt.Println("up")
	for {
		if err := step(v); err != nil {
			return fmt.Errorf("%s: %w", o.Kind, err)
		}
	}
}

// cancelled queues all buffers for a peer that does not exist, and cancels them.
func (v *victim) cancelled(q transport.QueueType) error {
	for i, b := range v.buffers {
		b.Queue = q
		if err := v.tms[i%2].Add(b); err != nil {
			return err
		}
	}
	for i, b := range v.buffers {
		v.tms[i%2].Cancel(b)
	}
	for range v.buffers {
		<-v.events // ECANCELED
	}
	return nil
}

// sendMany sends messages from one TM to the other.
func (v *victim) sendMany() error {
	to, err := v.tms[0].EndPoint(v.order.To)
	if err != nil {
		return err
	}
	defer to.Put()
	for i, b := range v.buffers {
		tm := v.tms[1]
		b.Queue, b.Length, b.EndPoint = transport.MsgRecv, 4096, nil
		if i >= 4 {
			tm, b.Queue, b.EndPoint = v.tms[0], transport.MsgSend, to
		}
		b.MaxMessages = 1
		if err := tm.Add(b); err != nil {
			return err
		}
	}
	return v.ended(len(v.buffers))
}

// bulk transfers bulk from one TM to the other, four buffers at a time.
func (v *victim) bulk(passive, active transport.QueueType) error {
	for i := range 4 {
		p, a := v.buffers[i], v.buffers[4+i]
		p.Queue, p.Length = passive, victimBulk
		if err := v.tms[0].Add(p); err != nil {
			return err
		}
		a.Queue, a.Length, a.Descriptor = active, victimBulk, p.Descriptor
		if err := v.tms[1].Add(a); err != nil {
			return err
		}
	}
	return v.ended(len(v.buffers))
}

// ended waits until n operations have succeeded.
func (v *victim) ended(n int) error {
	for range n {
		if err := <-v.events; err != nil {
			return err
		}
	}
	return nil
}

// areas allocates memory in another area, and frees it.
func (v *victim) areas() error {
	d, err := remote.New(remote.Config{Path: v.order.Socket, Program: v.order.Kind}).Open(v.ctx)
	if err != nil {
		return err
	}
	for _, n := range []int{4096, 3 << 20, 16 << 20} {
		b, err := d.Alloc(v.ctx, n)
		if err != nil {
			return err
		}
		b[0], b[n-1] = 1, 1
		if err := d.Free(b); err != nil {
			return err
		}
	}
	return d.Close()
}

// registrations registers buffers and deregisters them.
func (v *victim) registrations() error {
	for _, b := range v.buffers {
		if err := v.domain.Deregister(b); err != nil {
			return err
		}
		if err := v.domain.Register(v.ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// machines starts and stops TMs.
func (v *victim) machines() error {
	tm, err := v.domain.Open(v.ctx, v.tms[0].Self().Address().NID.String()+":12345:37:*", nil)
	if err != nil {
		return err
	}
	return tm.Shutdown(v.ctx)
}

// connections connects and disconnects.
func (v *victim) connections() error {
	d, err := transport.NewDomain(v.ctx, remote.New(remote.Config{Path: v.order.Socket, Program: v.order.Kind}))
	if err != nil {
		return err
	}
	return d.Close()
}
