package selftest

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/selftest/message"
)

// session is a console's session on this node, with its batches and tests (selftest 4). The framework's
// goroutine owns the session and everything that it refers to. Agent.mu guards the parts that other
// goroutines also read.
type session struct {
	agent    *Agent
	id       message.SessionID
	name     message.Name
	features message.Features
	made     time.Time
	refs     int // references; a make-session request adds one, a remove-session request removes one

	brwErrors, pingErrors atomic.Uint32

	batches map[uint64]*batch
	tests   int
	// holds is the number of running batches, plus one as long as this is the session of the node. The
	// session is freed when it becomes 0.
	holds atomic.Int32
}

// sessionID returns the ID of the session, or NoSession.
func (a *Agent) sessionID() message.SessionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil {
		return message.NoSession
	}
	return a.session.id
}

// hasID reports whether id is the ID of the session. It returns false for a nil session.
func (s *session) hasID(id message.SessionID) bool { return s != nil && s.id == id }

// addRefs adds n to the references of a session, and returns the new number.
func (a *Agent) addRefs(s *session, n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.refs += n
	return s.refs
}

// timeout returns the session timeout as replies contain it, in seconds.
func (a *Agent) timeout() uint32 { return uint32(a.config.SessionTimeout / time.Second) }

// makeSession handles a make-session request (selftest 4.4).
func (a *Agent) makeSession(q *message.MakeSessionRequest) message.MakeSessionReply {
	s := a.session
	switch {
	case q.Session.NID.IsAny():
		return message.MakeSessionReply{Status: message.EINVAL, Session: a.sessionID()}
	case s.hasID(q.Session):
		a.addRefs(s, +1)
		return message.MakeSessionReply{Session: s.id, Timeout: a.timeout()}
	case s != nil && !q.Force:
		return message.MakeSessionReply{Status: message.EBUSY, Session: s.id, Timeout: a.timeout(), Name: s.name}
	case q.Features&^message.Supported != 0:
		return message.MakeSessionReply{Status: message.EPROTO, Session: a.sessionID()}
	}
	a.deactivate()
	s = &session{
		agent: a, id: q.Session, name: q.Name, features: q.Features, made: time.Now(), refs: 1,
		batches: map[uint64]*batch{},
	}
	s.holds.Store(1)
	a.work.Add(1) // release calls Done when the session is freed
	a.mu.Lock()
	a.session = s
	a.features.Store(uint32(s.features))
	a.mu.Unlock()
	a.logSession("selftest: session began", s.id, slog.String("name", s.name.String()))
	return message.MakeSessionReply{Session: s.id, Timeout: a.timeout()}
}

// removeSession handles a remove-session request (selftest 4.5).
func (a *Agent) removeSession(q *message.RemoveSessionRequest) message.RemoveSessionReply {
	s := a.session
	switch {
	case q.Session.NID.IsAny():
		return message.RemoveSessionReply{Status: message.EINVAL, Session: a.sessionID()}
	case s == nil:
		return message.RemoveSessionReply{Status: message.ESRCH, Session: message.NoSession}
	case !s.hasID(q.Session):
		return message.RemoveSessionReply{Status: message.EBUSY, Session: s.id}
	}
	if a.addRefs(s, -1) > 0 {
		return message.RemoveSessionReply{Session: s.id}
	}
	a.deactivate()
	return message.RemoveSessionReply{Session: message.NoSession}
}

// debug handles a debug request (selftest 4.6).
func (a *Agent) debug(q *message.DebugRequest) message.DebugReply {
	s := a.session
	switch {
	case q.Features&^message.Supported != 0:
		return message.DebugReply{Status: message.EPROTO, Session: a.sessionID()}
	case s == nil:
		return message.DebugReply{Status: message.ESRCH, Session: message.NoSession}
	}
	return message.DebugReply{Session: s.id, Timeout: a.timeout(), Name: s.name}
}

// stat handles a stat request (selftest 4.7).
func (a *Agent) stat(q *message.StatRequest) message.StatReply {
	s := a.session
	switch {
	case q.Session.NID.IsAny():
		return message.StatReply{Status: message.EINVAL, Session: a.sessionID()}
	case !s.hasID(q.Session):
		return message.StatReply{Status: message.ESRCH, Session: a.sessionID()}
	}
	c := a.node.Admin().Counters()
	return message.StatReply{
		Session: s.id,
		Framework: message.FrameworkCounters{
			RunningMS:      uint32(time.Since(s.made).Milliseconds()),
			ActiveBatches:  uint32(s.holds.Load() - 1),
			ZombieSessions: uint32(a.zombies.Load()),
			BRWErrors:      s.brwErrors.Load(),
			PingErrors:     s.pingErrors.Load(),
		},
		RPC: a.counters.Snapshot(),
		LNet: message.LNetCounters{
			MessagesAllocated: uint32(c.Committed), MessagesMax: uint32(c.CommittedMax), Errors: uint32(c.Errors),
			SendCount: uint32(c.Sent), ReceiveCount: uint32(c.Received),
			RouteCount: uint32(c.Routed), DropCount: uint32(c.Dropped),
			SendLength: c.SentBytes, ReceiveLength: c.ReceivedBytes,
			RouteLength: c.RoutedBytes, DropLength: c.DroppedBytes,
		},
	}
}

// expire ends the session because its console has sent nothing for SessionTimeout (selftest 4.1).
func (a *Agent) expire() {
	if a.session != nil {
		a.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "selftest: session expired, because its console does not answer; its tests have ended", Of: boundedlog.AboutPeer(a.session.id.NID.NID())},
			slog.Any("session", a.session.id), slog.String("name", a.session.name.String()), slog.Duration("timeout", a.config.SessionTimeout))
		a.deactivate()
	}
}

// deactivate ends the session, if the node has one (selftest 4.2). Its units continue until their RPCs have
// been aborted; until then the session is a zombie. Only the framework's goroutine calls deactivate, or Close
// after that goroutine has ended.
func (a *Agent) deactivate() {
	a.mu.Lock()
	s := a.session
	a.session = nil
	a.features.Store(uint32(message.Supported))
	a.mu.Unlock()
	if s == nil {
		return
	}
	a.zombies.Add(1)
	for _, b := range s.batches {
		b.stop(true)
		b.unload()
	}
	a.tests.abort()
	s.release()
	a.logSession("selftest: session ended", s.id)
}

// release decrements holds. If it becomes 0, release frees the resources of the session.
func (s *session) release() {
	if s.holds.Add(-1) > 0 {
		return
	}
	a := s.agent
	for _, b := range s.batches {
		for _, t := range b.tests {
			a.units.Add(-int64(len(t.slots) + t.spareUnits))
		}
	}
	a.zombies.Add(-1)
	a.clientMemory.trimIdle()
	a.serverMemory.trimIdle()
	a.work.Done()
}
