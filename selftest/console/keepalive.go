package console

import (
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// keepAliveInterval is the interval of keep-alive checks (selftest 7.7). It is shorter if a node has a short
// session timeout; see shortenInterval.
const keepAliveInterval = 8 * time.Second

// keepAliveTimeout is the minimum time to wait for replies to keep-alive requests.
const keepAliveTimeout = time.Second

// keepAlive keeps the session alive on its nodes, and ends it if no command has arrived for the session's timeout.
// It returns when the session ends.
func (c *Console) keepAlive(s *session) {
	defer s.look.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.look.C:
		}
		if requests, patience := c.dueKeepAlives(s); len(requests) > 0 {
			c.work.Go(func() { c.sendKeepAlives(s, patience, requests) })
		}
	}
}

// sendKeepAlives sends keep-alive requests and waits for the replies. It runs in a separate goroutine,
// so that nodes that do not answer do not delay the next round.
func (c *Console) sendKeepAlives(s *session, patience time.Duration, requests []*nodeRequest) {
	c.transact(s.ctx, s, patience, requests, nil)
	c.mu.Lock()
	for _, l := range requests {
		l.member.asked = false
	}
	c.mu.Unlock()
	s.work.Done()
}

// shortenInterval shortens the interval of checks so that a node with this session timeout gets a keep-alive request
// after half of the timeout and before three quarters of it. The caller holds c.mu.
func (s *session) shortenInterval(timeout time.Duration) {
	if d := timeout / 4; timeout > 0 && d < s.every {
		s.every = d
		s.look.Reset(d)
	}
}

// dueKeepAlives returns the node requests of the keep-alive requests that are due, and how long to wait for
// replies. If there are any, the session is not removed until s.work.Done is called.
func (c *Console) dueKeepAlives(s *session) (requests []*nodeRequest, patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if s.ending {
		return nil, 0
	}
	s.look.Reset(s.every)
	if s.commands == 0 && now.Sub(s.last) > s.timeout {
		c.Logger.Warn("selftest: session of this console expired, because its owner did not use it in time", "session", s.id.String(), "name", s.name.String(),
			"timeout", s.timeout)
		c.endLocked(s)
		return nil, 0
	}
	for _, m := range s.members {
		if m.state == Active && m.timeout > 0 && !m.asked && now.Sub(m.contact) >= m.timeout/2 {
			m.asked = true
			requests = append(requests, c.debug(s, m))
		}
	}
	if len(requests) > 0 {
		s.work.Add(1)
	}
	return requests, max(s.every, keepAliveTimeout)
}

// debug returns a node request that sends a debug request to a node, which returns the node's session. The
// caller holds c.mu.
func (c *Console) debug(s *session, m *member) *nodeRequest {
	return &nodeRequest{
		member: m, reply: new(message.DebugReply),
		request: &message.DebugRequest{Header: s.header(), Session: s.id},
	}
}
