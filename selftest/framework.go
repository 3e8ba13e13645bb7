package selftest

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// runFramework handles framework requests one at a time until Close. It ends the session if no request has
// arrived for SessionTimeout (selftest 4.1). The timer stops while a request is handled, and is started again
// after it.
func (a *Agent) runFramework() {
	defer close(a.ended)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-a.ctx.Done():
			timer.Stop()
			a.stuckTicker.Stop()
			return
		case <-timer.C:
			a.expire()
		case <-a.stuckTicker.C:
			a.checkStuck()
		case in := <-a.requests:
			timer.Stop()
			a.handle(in)
			if a.session != nil && a.config.SessionTimeout > 0 {
				timer.Reset(a.config.SessionTimeout)
			}
		}
	}
}

// handle handles one framework request (selftest 4).
func (a *Agent) handle(in *inbound) {
	if in.list != nil { // the request is handled for the second time, now with its list of destinations
		a.fetching--
	}
	if s := a.session; s != nil && s.features != in.header.Features &&
		in.service != message.ServiceMakeSession && in.service != message.ServiceDebug &&
		in.service != message.ServiceJoin { // the console's session decides about joins
		in.refuse(message.EPROTO)
		return
	}
	switch err := a.execute(in); {
	case err == nil:
		in.answer()
	case !errors.Is(err, errNotFetched):
		in.drop()
	}
}

// errNoReply means that a request must be dropped without a reply.
var errNoReply = errors.New("selftest: the request is dropped without a reply")

// execute executes a framework request and encodes the reply into in.reply. If it returns errNotFetched, the
// reply follows later. After any other error there is no reply.
func (a *Agent) execute(in *inbound) error {
	b, out := in.request[:], in.reply[:0]
	switch in.service {
	case message.ServiceMakeSession:
		var q message.MakeSessionRequest
		_ = q.Decode(b) // cannot fail, because the type was checked; nor can the calls below
		r := a.makeSession(&q)
		r.Header = a.header()
		r.Append(out)
	case message.ServiceRemoveSession:
		var q message.RemoveSessionRequest
		_ = q.Decode(b)
		r := a.removeSession(&q)
		r.Header = a.header()
		r.Append(out)
	case message.ServiceDebug:
		var q message.DebugRequest
		_ = q.Decode(b)
		r := a.debug(&q)
		r.Header = a.header()
		r.Append(out)
	case message.ServiceStat:
		var q message.StatRequest
		_ = q.Decode(b)
		r := a.stat(&q)
		r.Header = a.header()
		r.Append(out)
	case message.ServiceBatch:
		var q message.BatchRequest
		_ = q.Decode(b)
		r, ok := a.batch(&q)
		if !ok {
			return errNoReply
		}
		r.Header = a.header()
		r.Append(out)
	case message.ServiceTest:
		var q message.TestRequest
		_ = q.Decode(b)
		status, err := a.addTest(in, &q)
		if err != nil {
			return err
		}
		r := message.TestReply{Header: a.header(), Status: status, Session: a.sessionID()}
		r.Append(out)
	case message.ServiceJoin:
		f := a.join.Load()
		if f == nil {
			return errNoReply
		}
		var q message.JoinRequest
		_ = q.Decode(b)
		r := (*f)(in.from, &q)
		if r.Version == 0 {
			r.Header = a.header()
		}
		r.Append(out)
	}
	return nil
}
