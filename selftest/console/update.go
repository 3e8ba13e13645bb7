package console

import (
	"context"
	"syscall"
)

// unused is a group that may be changed; c.mu is held.
func (s *session) unused(name string) (*group, error) {
	g := s.group(name)
	switch {
	case g == nil:
		return nil, notFound("group", name)
	case g.tests > 0:
		return nil, refuse(syscall.EBUSY, "group", name, "a test uses it")
	}
	return g, nil
}

// RefreshGroup asks those nodes of a group that are not active once more to take
// part in the session. Errors: ENOENT; EBUSY a test uses it; EPROTO as AddGroup.
func (c *Console) RefreshGroup(ctx context.Context, key Key, name string) (GroupChange, error) {
	x, err := c.change(ctx, key)
	if err != nil {
		return GroupChange{}, err
	}
	defer x.end()
	c.mu.Lock()
	g, err := x.unused(name)
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

// CleanGroup takes nodes that are in one of the given states out of a group.
// Errors: ENOENT; EBUSY a test uses it; EINVAL no states.
func (c *Console) CleanGroup(ctx context.Context, key Key, name string, states State) (GroupChange, error) {
	if states == 0 || states&^(Active|Invalid) != 0 {
		return GroupChange{}, refuse(syscall.EINVAL, "group", name, "states %#x", uint8(states))
	}
	return c.changeGroup(ctx, key, name, func(m *member) bool { return m.state&states != 0 })
}

// RemoveFromGroup takes the nodes that are in lists of NIDs out of a group.
// Errors: ENOENT the group, or none of the nodes is in it; EBUSY a test uses it;
// EINVAL a list.
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

// changeGroup takes the nodes that leaving picks out of a group. Those that are
// in no other leave the session.
func (c *Console) changeGroup(ctx context.Context, key Key, name string, leaving func(m *member) bool) (GroupChange, error) {
	x, err := c.change(ctx, key)
	if err != nil {
		return GroupChange{}, err
	}
	defer x.end()
	s := x.session
	var gone []*member
	var change GroupChange
	c.mu.Lock()
	g, err := s.unused(name)
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
