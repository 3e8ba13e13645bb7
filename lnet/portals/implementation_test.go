package portals_test

import (
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// exchange is one operation in either implementation.
type exchange struct {
	portals.Operation
	id int

	// Fields of the model.
	on       *modelMD
	response bool
}

// implementation runs the steps of a test: the table or the model.
type implementation interface {
	attach(e portals.Entry, d portals.MD) (h lnet.Handle, accepted, dropped []*exchange, err error)
	bind(d portals.MD) (lnet.Handle, error)
	unlink(h lnet.Handle) error
	match(x *exchange) portals.Verdict
	setLazy(p uint32)
	clearLazy(p uint32) []*exchange
	dropDelayed(which func(*exchange) bool) []*exchange
	close() []*exchange
	begin(h lnet.Handle, x *exchange, b portals.Begin) (int, error)
	setNextHop(x *exchange, hop lnet.NID)
	aborted(x *exchange) bool
	take(h lnet.Handle, x *exchange, t portals.EventType, payload int) bool
	finish(x *exchange, err error)
	memory(x *exchange) (offset, length int)
	overdue(now int64) []portals.Overdue
	unlinkOverdue(h lnet.Handle, now int64) error
	tracked() int
}

// actual is the table as an implementation.
type actual struct{ *portals.Table }

func exchanges(q portals.Operations) []*exchange {
	var list []*exchange
	for _, o := range operationsOf(q) {
		list = append(list, o.Owner.(*exchange))
	}
	return list
}

func (r actual) attach(e portals.Entry, d portals.MD) (lnet.Handle, []*exchange, []*exchange, error) {
	h, accepted, dropped, err := r.Attach(e, d)
	return h, exchanges(accepted), exchanges(dropped), err
}

func (r actual) bind(d portals.MD) (lnet.Handle, error) { return r.Bind(d) }
func (r actual) unlink(h lnet.Handle) error             { return r.Unlink(h) }
func (r actual) match(x *exchange) portals.Verdict      { return r.Match(&x.Operation) }
func (r actual) close() []*exchange                     { return exchanges(r.Close()) }
func (r actual) setNextHop(x *exchange, hop lnet.NID)   { r.SetNextHop(&x.Operation, hop) }
func (r actual) aborted(x *exchange) bool               { return r.Aborted(&x.Operation) }
func (r actual) finish(x *exchange, err error)          { r.Finish(&x.Operation, err) }
func (r actual) overdue(now int64) []portals.Overdue    { return r.AppendOverdue(nil, now) }
func (r actual) tracked() int                           { return r.Trackers() }
func (r actual) unlinkOverdue(h lnet.Handle, now int64) error {
	return r.UnlinkOverdue(h, now)
}

func (r actual) memory(x *exchange) (offset, length int) { m := x.Memory(); return m.Offset, m.Length }

func (r actual) setLazy(p uint32) {
	if err := r.SetLazy(p); err != nil {
		panic(err)
	}
}

func (r actual) clearLazy(p uint32) []*exchange {
	dropped, err := r.ClearLazy(p)
	if err != nil {
		panic(err)
	}
	return exchanges(dropped)
}

func (r actual) dropDelayed(which func(*exchange) bool) []*exchange {
	return exchanges(r.DropDelayed(func(o *portals.Operation) bool { return which(o.Owner.(*exchange)) }))
}

func (r actual) begin(h lnet.Handle, x *exchange, b portals.Begin) (int, error) {
	m, err := r.Begin(h, &x.Operation, b)
	return m.Length, err
}

func (r actual) take(h lnet.Handle, x *exchange, t portals.EventType, payload int) bool {
	if t == portals.EventAck {
		return r.BeginAck(h, &x.Operation)
	}
	return r.BeginReply(h, &x.Operation, payload)
}
