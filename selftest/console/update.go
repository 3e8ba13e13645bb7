package console

import (
	"context"
	"syscall"
)

// changeableGroup returns the group with this name if it may be changed. It returns ENOENT if there is no such group,
// and EBUSY if a test uses it. The caller holds c.mu.
func (s *session) changeableGroup(name string) (*group, error) {
	g := s.group(name)
	switch {
	case g == nil:
		return nil, notFound("group", name)
	case g.tests > 0:
		return nil, refuse(syscall.EBUSY, "group", name, "a test uses the group")
	}
	return g, nil
}

// RefreshGroup requests those nodes of a group that are not active to join the session again. It returns
// ENOENT if there is no such group, EBUSY if a test uses it, and EPROTO under the same condition as AddGroup.
func (c *Console) RefreshGroup(ctx context.Context, key Key, name string) (GroupChange, error) {
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return GroupChange{}, err
	}
	defer x.end()
	c.mu.Lock()
	g, err := x.changeableGroup(name)
	var idle []*member
	if err == nil {
		for _, m := range g.members {
			if m.state != Active {
				idle = append(idle, m)
			}
		}
	}
	c.mu.Unlock()
	if err != nil {
		return GroupChange{}, err
	}
	r, compatible, mismatch := c.makeSessions(x, idle)
	if err := stopped(x.ctx); err != nil {
		mismatch = err
	}
	return GroupChange{Result: r, Compatible: compatible}, mismatch
}

// CleanGroup removes from a group the nodes that are in any of the given states. It returns ENOENT if there
// is no such group, EBUSY if a test uses it, and EINVAL if states is invalid.
func (c *Console) CleanGroup(ctx context.Context, key Key, name string, states State) (GroupChange, error) {
	if states == 0 || states&^(Active|Invalid) != 0 {
		return GroupChange{}, refuse(syscall.EINVAL, "group", name, "invalid states %#x", uint8(states))
	}
	return c.changeGroup(ctx, key, name, func(m *member) bool { return m.state&states != 0 })
}

// RemoveFromGroup removes from a group the nodes in lists of NIDs. It returns ENOENT if there is no such
// group or the group contains none of the nodes, EBUSY if a test uses it, and EINVAL if a list is invalid.
func (c *Console) RemoveFromGroup(ctx context.Context, key Key, name string, lists []string) (GroupChange, error) {
	out := map[string]bool{}
	total := 0
	for _, text := range lists {
		ids, err := parseIDs(text)
		if err != nil {
			return GroupChange{}, err
		}
		if total += len(ids); total > maxRows {
			return GroupChange{}, tooMany("group", name)
		}
		for _, id := range ids {
			out[id.String()] = true
		}
	}
	g, err := c.changeGroup(ctx, key, name, func(m *member) bool { return out[m.id.String()] })
	if err == nil && g.Removed == 0 {
		err = refuse(syscall.ENOENT, "nodes", name, "none of the nodes is in the group")
	}
	return g, err
}

// changeGroup removes from a group the nodes for which leaving returns true. Nodes that are in no other group
// leave the session.
func (c *Console) changeGroup(ctx context.Context, key Key, name string, leaving func(m *member) bool) (GroupChange, error) {
	x, err := c.beginChange(ctx, key)
	if err != nil {
		return GroupChange{}, err
	}
	defer x.end()
	s := x.session
	var gone []*member
	var change GroupChange
	c.mu.Lock()
	g, err := s.changeableGroup(name)
	if err == nil {
		var list []*member
		for _, m := range g.members {
			if leaving(m) {
				list = append(list, m)
			}
		}
		gone = s.leaveGroup(g, list)
		change.Removed, change.Deleted = len(list), len(g.members) == 0
	}
	c.mu.Unlock()
	if err != nil {
		return GroupChange{}, err
	}
	change.Result = c.remove(x.removal(), s, gone)
	return change, stopped(x.ctx)
}
