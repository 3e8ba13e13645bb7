package console

import (
	"context"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Target selects the nodes of a command. Exactly one of these must be set: Session (all nodes of the
// session), Group, Batch (its clients or, with Servers, its servers), or Nodes (lists of NIDs, which need not
// be in the session).
type Target struct {
	Session bool     `json:"session,omitempty"`
	Group   string   `json:"group,omitempty"`
	Batch   string   `json:"batch,omitempty"`
	Servers bool     `json:"servers,omitempty"` // servers of the batch instead of clients
	Nodes   []string `json:"nodes,omitempty"`   // lists of NIDs
}

// find returns the nodes of a target. The caller holds c.mu.
func (s *session) find(t *Target) ([]*member, error) {
	chosen := 0
	for _, b := range []bool{t.Session, t.Group != "", t.Batch != "", len(t.Nodes) > 0} {
		if b {
			chosen++
		}
	}
	if chosen != 1 {
		return nil, refuse(syscall.EINVAL, "nodes", "", "exactly one of session, group, batch and nodes must be given instead of %d", chosen)
	}
	switch {
	case t.Session:
		return s.members, nil
	case t.Group != "":
		g := s.group(t.Group)
		if g == nil {
			return nil, notFound("group", t.Group)
		}
		return g.members, nil
	case t.Batch != "":
		b := s.batch(t.Batch)
		switch {
		case b == nil:
			return nil, notFound("batch", t.Batch)
		case t.Servers:
			return b.servers.list, nil
		}
		return b.clients.list, nil
	}
	var list []*member
	seen := map[lnet.ProcessID]bool{}
	rows := 0
	for _, text := range t.Nodes {
		found, err := s.byIDs(text)
		if err != nil {
			return nil, err
		}
		if rows += len(found); rows > maxRows {
			return nil, tooMany("nodes", "")
		}
		for _, m := range found {
			if !seen[m.id] {
				seen[m.id] = true
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// byIDs returns the nodes in a list of NIDs. For nodes that are not in the session it creates members that
// are not added to the session. The caller holds c.mu.
func (s *session) byIDs(text string) ([]*member, error) {
	ids, err := parseIDs(text)
	if err != nil {
		return nil, err
	}
	list := make([]*member, 0, len(ids))
	for _, id := range ids {
		m := s.byID[id]
		if m == nil {
			m = &member{id: id, state: Unknown, features: s.features}
		}
		list = append(list, m)
	}
	return list, nil
}

// Ping asks nodes which session they are in, and waits up to timeout for their replies: 3 to 30 s, where 0
// means 30 s. Each row of the result has the state of a node and, if it is active or busy, the console and
// the name of its session. Ping returns EINVAL if the target is invalid, and ENOENT if there is no such group
// or batch.
func (c *Console) Ping(ctx context.Context, key Key, t Target, timeout time.Duration) (Result, error) {
	x, err := c.begin(ctx, key)
	if err != nil {
		return Result{}, err
	}
	defer x.end()
	c.mu.Lock()
	list, err := x.find(&t)
	requests := make([]*nodeRequest, 0, len(list))
	for _, m := range list {
		requests = append(requests, c.debug(x.session, m))
	}
	c.mu.Unlock()
	if err != nil {
		return Result{}, err
	}
	r := c.transact(x.ctx, x.session, limitOf(timeout, maxAsk), requests, nil)
	for k := range r.Nodes {
		n := &r.Nodes[k]
		n.Success = n.Success && n.State == Active
	}
	r.Sum()
	return r, stopped(x.ctx)
}
