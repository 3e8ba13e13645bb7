package console

import (
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// keepInterval is how often nodes are looked after (selftest 7.7), unless one
// gives the session up so early that it takes more.
const keepInterval = 8 * time.Second

// keepPatience is how long nodes are waited for, at least.
const keepPatience = time.Second

// keep keeps the session alive on its nodes, and ends it when no command has
// come for too long. It returns when the session ends.
func (c *Console) keep(s *session) {
	defer s.look.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.look.C:
		}
		if legs, patience := c.stale(s); len(legs) > 0 {
			c.work.Go(func() { c.ask(s, patience, legs) })
		}
	}
}

// ask asks nodes whether they are there. Those that do not answer hold up none that
// are due next.
func (c *Console) ask(s *session, patience time.Duration, legs []*leg) {
	c.transact(s.ctx, s, patience, legs, nil)
	c.mu.Lock()
	for _, l := range legs {
		l.member.asked = false
	}
	c.mu.Unlock()
	s.work.Done()
}

// keepOn sees to it that a node that gives the session up after a time is asked
// in time: when half of it has passed, and before three quarters have. c.mu is
// held.
func (s *session) keepOn(timeout time.Duration) {
	if d := timeout / 4; timeout > 0 && d < s.every {
		s.every = d
		s.look.Reset(d)
	}
}

// stale are the nodes to be asked now, and how long to wait for them. If there
// are any the session lasts until s.work.Done is called.
func (c *Console) stale(s *session) (legs []*leg, patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if s.ending {
		return nil, 0
	}
	s.look.Reset(s.every)
	if s.commands == 0 && now.Sub(s.last) > s.timeout {
		c.Logger.Warn("selftest: console session expired", "session", s.id.String(), "name", s.name.String(),
			"timeout", s.timeout)
		c.endLocked(s)
		return nil, 0
	}
	for _, m := range s.members {
		if m.state == Active && m.timeout > 0 && !m.asked && now.Sub(m.contact) >= m.timeout/2 {
			m.asked = true
			legs = append(legs, c.debug(s, m))
		}
	}
	if len(legs) > 0 {
		s.work.Add(1)
	}
	return legs, max(s.every, keepPatience)
}

// debug asks a node for its session; c.mu is held.
func (c *Console) debug(s *session, m *member) *leg {
	return &leg{
		member: m, reply: new(message.DebugReply),
		request: &message.DebugRequest{Header: s.header(), Session: s.id},
	}
}
