package console

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// Time limits of transactions (selftest 7.3).
const (
	defaultLimit = 30 * time.Second
	minLimit     = 3 * time.Second
	maxAsk       = 30 * time.Second // maximum time limit of ping and stat
	// longLimit is the time limit from which on an RPC without a reply is reported as timed out. With a
	// shorter limit, it is reported as interrupted.
	longLimit = 6 * time.Second
	// grace is the additional time after which a transaction gives up RPCs whose time is up. It lets them
	// time out by themselves and report their own error.
	grace = 100 * time.Millisecond
	// repeatAfter is the time after which an unanswered query is sent again. The first one may have been sent on
	// a path that has failed and that this node avoids by now.
	repeatAfter = 2 * time.Second
)

// limitOf returns the time limit for d, which a user has chosen: at least minLimit, at most most, and
// defaultLimit for 0.
func limitOf(d, most time.Duration) time.Duration {
	if d == 0 {
		return defaultLimit
	}
	return min(max(d, minLimit), most)
}

// nodeRequest is the part of a transaction that concerns one node: an RPC to this node, and its repetition if the
// request is a query.
type nodeRequest struct {
	member  *member
	request message.Request
	reply   message.Reply // valid only if the node request's result has no RPC error
	bulk    []byte        // data that the node fetches, or nil
	limit   time.Duration // 0 means the limit of the transaction

	first    rpc.Call
	second   *rpc.Call     // the repetition of a query
	left     int           // number of calls that have not ended
	index    int           // position of the result in Result.Nodes
	ended    chan<- ending // receives the end of each call
	repeatAt time.Time     // when to repeat the query; zero: never
	giveUpAt time.Time     // when the transaction gives up the node request
	over     bool          // the result of the node request is recorded
}

// ending means that a call of a node request has ended.
type ending struct {
	request *nodeRequest
	call    *rpc.Call
}

// Ended implements rpc.Waiter. It does not block, because the channel has room for all calls.
func (l *nodeRequest) Ended(k *rpc.Call) { l.ended <- ending{l, k} }

// giveUp aborts the node request's calls that have not ended. If the node has to fetch bulk data, the call
// ends by its own timeout instead. Without the data, the node would answer no requests, including those that
// end the session, until its fetch has timed out.
func (l *nodeRequest) giveUp() {
	if l.bulk != nil {
		return
	}
	l.first.Abort()
	if l.second != nil {
		l.second.Abort()
	}
}

// repeatable reports whether the request may be sent twice, because it only queries the node.
func (l *nodeRequest) repeatable() bool {
	switch q := l.request.(type) {
	case *message.StatRequest, *message.DebugRequest:
		return true
	case *message.BatchRequest:
		return q.Op == message.BatchQuery
	}
	return false
}

// start starts call k of the node request. It sets the timeout to the time that is left.
func (l *nodeRequest) start(c *rpc.Client, k *rpc.Call, now time.Time) {
	k.To, k.Service, k.Waiter = l.member.id, l.request.Service(), l
	k.Bulk = rpc.Bulk{Bytes: l.bulk}
	switch {
	case l.limit >= longLimit:
		k.Timeout = l.giveUpAt.Sub(now) - grace
	case l.bulk != nil:
		k.Timeout = longLimit // giveUp does not abort this call
	}
	k.SetRequest(l.request)
	l.left++
	c.Start(k)
}

// begin starts the first call of the node request and sets its times.
func (l *nodeRequest) begin(c *rpc.Client, now time.Time) {
	l.giveUpAt = now.Add(l.limit)
	if l.limit >= longLimit {
		l.giveUpAt = l.giveUpAt.Add(grace)
	}
	if l.repeatable() {
		l.repeatAt = now.Add(repeatAfter)
	}
	l.start(c, &l.first, now)
}

// nextTime returns the time at which the node request must be repeated or given up, whichever is earlier.
func (l *nodeRequest) nextTime() time.Time {
	if l.repeatAt.IsZero() || l.giveUpAt.Before(l.repeatAt) {
		return l.giveUpAt
	}
	return l.repeatAt
}

// repeat sends the query again, as the second call of the node request.
func (l *nodeRequest) repeat(c *rpc.Client, now time.Time) {
	l.repeatAt = time.Time{}
	l.second = new(rpc.Call)
	l.start(c, l.second, now)
}

// callEnded handles the end of call k. It returns true if the result of the node request is known: after the
// first reply or, if no call gets a reply, after the last error.
func (l *nodeRequest) callEnded(k *rpc.Call) (over bool, err error) {
	l.left--
	if err = k.Err(); err == nil {
		err = l.reply.Decode(k.Reply())
	}
	return err == nil || l.left == 0, err
}

// transact sends a request to each node, to all at the same time, and returns the results. If a query is not
// answered soon, it sends the query again, which deviates from kernels. transact returns when all RPCs have
// ended, their time is up, or ctx is done. RPCs that have not ended by then are aborted, and their results
// are discarded. accept reports whether a status in a reply means success; if accept is nil, only 0 does.
func (c *Console) transact(
	ctx context.Context, s *session, limit time.Duration, requests []*nodeRequest, accept func(message.Status) bool,
) Result {
	r := Result{Nodes: make([]NodeResult, len(requests))}
	ended := make(chan ending, 2*len(requests))
	start := time.Now()
	for k, l := range requests {
		l.index, l.ended = k, ended
		if l.limit == 0 {
			l.limit = limit
		}
		l.begin(c.client, start)
	}
	timer := time.NewTimer(time.Until(earliest(requests)))
	defer timer.Stop()
	for left := len(requests); left > 0; {
		select {
		case e := <-ended:
			l := e.request
			if l.over {
				continue
			}
			if over, err := l.callEnded(e.call); over {
				l.giveUp()
				r.Nodes[l.index] = c.finish(s, l, err, accept)
				left--
			}
		case <-timer.C:
			now := time.Now()
			for _, l := range requests {
				switch {
				case l.over:
				case !l.giveUpAt.After(now):
					l.giveUp()
					r.Nodes[l.index] = c.finish(s, l, overdue(l.limit), accept)
					left--
				case !l.repeatAt.IsZero() && !l.repeatAt.After(now):
					l.repeat(c.client, now)
				}
			}
			if left > 0 {
				timer.Reset(time.Until(earliest(requests)))
			}
		case <-ctx.Done():
			for _, l := range requests {
				if !l.over {
					l.giveUp()
					r.Nodes[l.index] = c.finish(s, l, rpc.ErrAborted, accept)
				}
			}
			left = 0
		}
	}
	r.Sum()
	return r
}

func overdue(limit time.Duration) error {
	if limit < longLimit {
		return rpc.ErrAborted
	}
	return rpc.ErrTimedOut
}

// earliest returns the earliest result of nextTime of the node requests whose result is not known.
func earliest(requests []*nodeRequest) (t time.Time) {
	for _, l := range requests {
		if !l.over && (t.IsZero() || l.nextTime().Before(t)) {
			t = l.nextTime()
		}
	}
	return t
}

// finish returns the result of a node request, and updates the state of its member. err is the error of the
// RPC. accept is that of transact.
func (c *Console) finish(s *session, l *nodeRequest, err error, accept func(message.Status) bool) NodeResult {
	l.over = true
	n := NodeResult{ID: l.member.id}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := l.member
	if err != nil {
		n.RPC = rpc.Errno(err)
		// A node that had less time to answer than its limit, because the command was aborted, is not down.
		if !errors.Is(err, rpc.ErrAborted) || !time.Now().Before(l.giveUpAt) {
			m.state = Down
		}
		n.State = m.state
		return n
	}
	a := answerOf(l.reply)
	m.contact = time.Now()
	switch a.session {
	case message.NoSession:
		m.state = Unknown
	case s.id:
		m.state = Active
	default:
		m.state = Busy
	}
	n.State = m.state
	n.Status = syscall.Errno(a.status)
	n.Active = a.active
	n.Success = a.status == message.OK
	if accept != nil {
		n.Success = accept(a.status)
	}
	if a.session != message.NoSession {
		n.Session = &SessionRef{NID: a.session.NID, Stamp: a.session.Stamp, Name: a.name}
	}
	return n
}

// answer contains the fields of a reply that finish needs, for any type of reply.
type answer struct {
	status  message.Status
	session message.SessionID
	name    string
	active  uint32
}

func answerOf(r message.Reply) answer {
	switch r := r.(type) {
	case *message.MakeSessionReply:
		a := answer{status: r.Status, session: r.Session}
		if r.Status == message.EBUSY { // the name is set only with this status
			a.name = r.Name.Printable()
		}
		return a
	case *message.RemoveSessionReply:
		return answer{status: r.Status, session: r.Session}
	case *message.DebugReply:
		a := answer{status: r.Status, session: r.Session}
		if r.Status == message.OK {
			a.name = r.Name.Printable()
		}
		return a
	case *message.BatchReply:
		a := answer{status: r.Status, session: r.Session}
		if r.Status == message.OK {
			a.active = r.Active
		}
		return a
	case *message.TestReply:
		return answer{status: r.Status, session: r.Session}
	case *message.StatReply:
		return answer{status: r.Status, session: r.Session}
	}
	panic("console: reply of an unknown type")
}
