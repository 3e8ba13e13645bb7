package console

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// maxGroups is the maximum number of groups of a session, including those created by joining processes.
const maxGroups = 4096

// group is a list of nodes. Console.mu guards it.
type group struct {
	name    string
	members []*member
	tests   int  // number of tests that use the group; if not 0, the group must not change
	joined  bool // a joining process has created the group
}

func (s *session) group(name string) *group {
	for _, g := range s.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

func (s *session) newGroup(name string) *group {
	g := &group{name: name}
	s.groups = append(s.groups, g)
	return g
}

func (s *session) newMember(id lnet.ProcessID) *member {
	m := &member{id: id, state: Unknown, features: s.features}
	s.byID[id] = m
	s.members = append(s.members, m)
	return m
}

func (g *group) has(m *member) bool { return slices.Contains(g.members, m) }

func (g *group) add(m *member) {
	g.members = append(g.members, m)
	m.groups++
}

// leaveGroup removes nodes from group g, and g from the session if it becomes empty. It returns the nodes
// that are in no other group, which it removes from the session's list. The caller must end the session on
// these nodes. The caller holds Console.mu.
func (s *session) leaveGroup(g *group, leaving []*member) (gone []*member) {
	out := make(map[*member]bool, len(leaving))
	for _, m := range leaving {
		out[m] = true
		if m.groups--; m.groups == 0 {
			delete(s.byID, m.id)
			gone = append(gone, m)
		}
	}
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return out[m] })
	// A goroutine that ends the session may be using the old slice, so create a new one.
	members := make([]*member, 0, len(s.members)-len(gone))
	for _, m := range s.members {
		if m.groups > 0 {
			members = append(members, m)
		}
	}
	s.members = members
	if len(g.members) == 0 {
		s.groups = slices.DeleteFunc(s.groups, func(o *group) bool { return o == g })
	}
	return gone
}

// AddGroup creates a group of the nodes in lists of NIDs, and makes them join the session (selftest 7.4). If
// no node joins, the group is deleted again. AddGroup returns EEXIST if the group exists; EINVAL if the name
// is invalid or there are no lists; and EPROTO if nodes were excluded because they have other features than
// the session.
func (c *Console) AddGroup(ctx context.Context, key Key, name string, lists []string) (GroupAddition, error) {
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return GroupAddition{}, err
	}
	defer x.end()
	a, err := newAddition(name, lists)
	if err != nil {
		return GroupAddition{}, err
	}
	s := x.session
	c.mu.Lock()
	err = a.enter(s)
	c.mu.Unlock()
	if err != nil {
		return GroupAddition{}, err
	}
	made, compatible, mismatch := c.makeSessions(x, a.fresh)
	a.Compatible = compatible
	c.mu.Lock()
	a.note(s, made.Nodes)
	gone := a.dropUnlessActive(s)
	c.mu.Unlock()
	c.remove(x.removal(), s, gone)
	if err := stopped(x.ctx); err != nil {
		return a.GroupAddition, err
	}
	return a.GroupAddition, mismatch
}

// addition is a group that is being created. ids and asked have an element for each list, in the order of
// Lists.
type addition struct {
	GroupAddition
	name  string
	ids   [][]lnet.ProcessID // for each list, its nodes
	total int                // number of ids
	group *group
	fresh []*member // members that are new in the session
	asked [][]int   // for each list, the indices in fresh of its members
}

// newAddition parses lists of NIDs. If a list is invalid, it sets the Error field of the list's Addition.
func newAddition(name string, lists []string) (*addition, error) {
	if err := checkName("group", name); err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		return nil, refuse(syscall.EINVAL, "group", name, "no nodes are given")
	}
	a := &addition{
		GroupAddition: GroupAddition{Lists: make([]Addition, len(lists))},
		name:          name, ids: make([][]lnet.ProcessID, len(lists)), asked: make([][]int, len(lists)),
	}
	for k, text := range lists {
		a.Lists[k].IDs = text
		a.ids[k], a.Lists[k].Error = parseIDs(text)
		if a.total += len(a.ids[k]); a.total > maxRows {
			return nil, tooMany("group", name)
		}
	}
	return a, nil
}

// enter adds the group, and its nodes that are new, to the session. The caller holds Console.mu.
func (a *addition) enter(s *session) error {
	if s.group(a.name) != nil {
		return &Error{Errno: syscall.EEXIST, What: "group", Name: a.name}
	}
	if len(s.groups) >= maxGroups || len(s.members)+a.total > maxNodes {
		return refuse(syscall.ENOMEM, "group", a.name, "at most %d groups and %d nodes are possible", maxGroups, maxNodes)
	}
	a.group = s.newGroup(a.name)
	in := make(map[*member]bool, a.total)
	for k, ids := range a.ids {
		for _, id := range ids {
			m := s.byID[id]
			if m == nil {
				m = s.newMember(id)
				a.asked[k] = append(a.asked[k], len(a.fresh))
				a.fresh = append(a.fresh, m)
			}
			if !in[m] {
				in[m] = true
				a.group.add(m)
			}
		}
	}
	return nil
}

// note sets the result of each list. made contains the results of the nodes in fresh. The caller holds
// Console.mu.
func (a *addition) note(s *session, made []NodeResult) {
	for k := range a.Lists {
		l := &a.Lists[k]
		l.Result.Nodes = make([]NodeResult, 0, len(a.asked[k]))
		for _, at := range a.asked[k] {
			l.Result.Nodes = append(l.Result.Nodes, made[at])
		}
		l.Result.Sum()
		l.Added = slices.ContainsFunc(a.ids[k], func(id lnet.ProcessID) bool {
			m := s.byID[id]
			return m != nil && m.state == Active
		})
	}
}

// dropUnlessActive deletes the group again if all of its nodes are inactive. It returns the nodes that are in
// no other group. The caller must end the session on these nodes. The caller holds Console.mu.
func (a *addition) dropUnlessActive(s *session) (gone []*member) {
	g := a.group
	a.Deleted = !slices.ContainsFunc(g.members, func(m *member) bool { return m.state == Active })
	if !a.Deleted {
		return nil
	}
	return s.leaveGroup(g, slices.Clone(g.members))
}

// removal returns the context for requests that end the session on nodes that the command removes. It is not
// the context of the command, because its caller may have canceled that. It is not that of the session
// either, because these nodes are no longer in the session when that ends.
func (x *command) removal() context.Context { return x.console.ctx }

// makeSessions makes nodes join the session. The first node that answers determines the session's features
// (selftest 7.4). compatible reports whether the session lost features by this. mismatch (EPROTO) is set if
// nodes were excluded because they have other features than the session.
func (c *Console) makeSessions(x *command, members []*member) (r Result, compatible bool, mismatch error) {
	s := x.session
	requests := make([]*nodeRequest, len(members))
	c.mu.Lock()
	for k, m := range members {
		m.makes++ // also if the node does not answer: it may have joined nevertheless
		m.features = s.features
		requests[k] = &nodeRequest{member: m, reply: new(message.MakeSessionReply), request: &message.MakeSessionRequest{
			Header: s.header(), Session: s.id, Force: s.force, Name: s.name,
		}}
	}
	c.mu.Unlock()
	r = c.transact(x.ctx, s, defaultLimit, requests, nil)

	var others []*member
	c.mu.Lock()
	for k := range r.Nodes {
		n, m := &r.Nodes[k], members[k]
		if n.RPC != 0 {
			if unreached(n.RPC) {
				m.makes--
			}
			continue
		}
		reply, _ := requests[k].reply.(*message.MakeSessionReply)
		if reply.Status != message.OK {
			m.makes--
			continue
		}
		m.features = reply.Features
		m.timeout = time.Duration(reply.Timeout) * time.Second
		s.shortenInterval(m.timeout)
		if !s.decided {
			s.decided = true
			compatible = reply.Features&s.features != s.features
			s.features &= reply.Features
		}
		if reply.Features != s.features {
			n.Success, n.Status = false, syscall.EPROTO
			others = append(others, m)
		}
	}
	c.mu.Unlock()
	if len(others) > 0 {
		c.remove(x.removal(), s, others)
		c.mu.Lock()
		for k := range r.Nodes {
			r.Nodes[k].State = members[k].state
		}
		mismatch = refuse(syscall.EPROTO, "nodes", others[0].id.String(),
			"%d nodes do not have the features of the session, %#x", len(others), uint32(s.features))
		c.mu.Unlock()
	}
	r.Sum()
	return r, compatible, mismatch
}

// unreached reports whether an RPC failed because there was no path to the node, so that the node has not
// received the request.
func unreached(e syscall.Errno) bool {
	return e == syscall.EHOSTUNREACH || e == syscall.ENETUNREACH || e == syscall.ECONNREFUSED
}

// DeleteGroup deletes a group. Nodes that are not in any other group leave the session. It returns ENOENT if
// there is no such group, and EBUSY if a test uses it.
func (c *Console) DeleteGroup(ctx context.Context, key Key, name string) (Result, error) {
	g, err := c.changeGroup(ctx, key, name, func(*member) bool { return true })
	return g.Result, err
}

// Groups returns the names of all groups in the order in which they were added.
func (c *Console) Groups(key Key) (names []string, err error) {
	err = c.withSession(key, func(s *session) error {
		names = make([]string, 0, len(s.groups))
		for _, g := range s.groups {
			names = append(names, g.name)
		}
		return nil
	})
	return names, err
}

// Group describes a group. It returns ENOENT if there is no such group.
func (c *Console) Group(key Key, name string) (i GroupInfo, err error) {
	err = c.withSession(key, func(s *session) error {
		g := s.group(name)
		if g == nil {
			return notFound("group", name)
		}
		i = GroupInfo{Name: g.name, InUse: g.tests > 0, Members: membersOf(g.members)}
		return nil
	})
	return i, err
}
