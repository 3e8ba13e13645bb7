package console

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// joinTimeout is the session timeout that a joined node is assumed to have. It is the default of nodes; the
// console does not know the actual value.
const joinTimeout = 100 * time.Second

// Limits for processes that join, so that there is room for the groups of commands. Any process may join,
// under any PID, and the console keeps the session alive on each.
const (
	maxJoinedGroups = 256
	maxJoinedNodes  = 1024
)

// joinedGroups returns the number of groups created by joining processes. The caller holds Console.mu.
func (s *session) joinedGroups() (n int) {
	for _, g := range s.groups {
		if g.joined {
			n++
		}
	}
	return n
}

// joinedNodes returns the number of nodes that have joined by a JOIN request. The caller holds Console.mu.
func (s *session) joinedNodes() (n int) {
	for _, m := range s.members {
		if m.joined {
			n++
		}
	}
	return n
}

// join handles a JOIN request of a process and returns the reply (selftest 7.9).
func (c *Console) join(from lnet.ProcessID, q *message.JoinRequest) message.JoinReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.session
	if s == nil || s.ending {
		return message.JoinReply{Status: message.ESRCH, Session: message.NoSession}
	}
	r := message.JoinReply{Header: s.header(), Session: s.id}
	g := s.group(q.Group.String())
	m := s.byID[from]
	_, short := message.NID4Of(from.NID)
	switch {
	case q.Features != s.features:
		r.Status = message.EPROTO
	case !q.Session.NID.IsAny() && q.Session != s.id:
		r.Status = message.EBUSY
	case g != nil && g.tests > 0:
		r.Status = message.EBUSY
	case g != nil && m != nil && g.has(m):
		r.Status = message.EEXIST
	case !short || checkName("group", q.Group.String()) != nil:
		r.Status = message.EINVAL
	case g == nil && (len(s.groups) >= maxGroups || s.joinedGroups() >= maxJoinedGroups),
		m == nil && (len(s.members) >= maxNodes || s.joinedNodes() >= maxJoinedNodes):
		r.Status = message.ENOMEM
	}
	if r.Status != message.OK {
		return r
	}
	if g == nil {
		g = s.newGroup(q.Group.String())
		g.joined = true
	}
	if m == nil {
		m = s.newMember(from)
		m.timeout, m.features, m.joined = joinTimeout, s.features, true
	}
	m.makes = max(m.makes, 1)
	m.state, m.contact = Active, time.Now()
	g.add(m)
	r.Timeout, r.Name = uint32(s.timeout/time.Second), s.name
	return r
}
