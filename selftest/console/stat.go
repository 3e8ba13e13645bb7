package console

import (
	"context"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Stat reads the counters of nodes. Each target is the name of a group or a list of NIDs. Stat waits up to
// timeout for the replies: 3 to 30 s, where 0 means 30 s. It returns ENOENT if a target is neither a group
// nor a list of NIDs.
func (c *Console) Stat(ctx context.Context, key Key, targets []string, timeout time.Duration) (Sample, error) {
	x, err := c.begin(ctx, key)
	if err != nil {
		return Sample{}, err
	}
	defer x.end()
	return c.stat(x, targets, timeout)
}

func (c *Console) stat(x *command, targets []string, timeout time.Duration) (Sample, error) {
	if len(targets) == 0 {
		return Sample{}, refuse(syscall.EINVAL, "group", "", "neither a group nor nodes are given")
	}
	lists := make([][]int, len(targets)) // indices into requests
	var requests []*nodeRequest
	at := map[lnet.ProcessID]int{}
	rows := 0
	c.mu.Lock()
	for t, name := range targets {
		list, err := x.target(name)
		if rows += len(list); err == nil && rows > maxRows {
			err = tooMany("nodes", "")
		}
		if err != nil {
			c.mu.Unlock()
			return Sample{}, err
		}
		for _, m := range list {
			k, ok := at[m.id]
			if !ok {
				k = len(requests)
				at[m.id] = k
				requests = append(requests, &nodeRequest{
					member: m, reply: new(message.StatReply),
					request: &message.StatRequest{Header: x.header(), Session: x.id},
				})
			}
			lists[t] = append(lists[t], k)
		}
	}
	c.mu.Unlock()
	r := c.transact(x.ctx, x.session, limitOf(timeout, maxAsk), requests, nil)
	nodes := make([]NodeSample, len(requests))
	for k, l := range requests {
		n := &nodes[k]
		n.NodeResult = r.Nodes[k]
		if !n.Success {
			continue
		}
		reply, _ := l.reply.(*message.StatReply)
		n.Framework, n.RPCs, n.LNet = reply.Framework, reply.RPC, reply.LNet
		if h, ok := c.Latencies(l.member.id.NID); ok {
			n.Latency = &h
		}
	}
	s := Sample{Targets: make([]TargetSample, len(targets))}
	for t, name := range targets {
		v := &s.Targets[t]
		v.Name, v.Nodes = name, make([]NodeSample, 0, len(lists[t]))
		for _, k := range lists[t] {
			v.Nodes = append(v.Nodes, nodes[k])
			if !nodes[k].Success {
				v.Failed++
			}
		}
	}
	return s, stopped(x.ctx)
}

// target returns the nodes of the group with this name, or those in the list of NIDs. The caller holds c.mu.
func (s *session) target(name string) ([]*member, error) {
	if g := s.group(name); g != nil {
		return g.members, nil
	}
	list, err := s.byIDs(name)
	if err != nil {
		return nil, refuse(syscall.ENOENT, "group", name, "there is no such group, and it is not a list of NIDs: %v", err)
	}
	return list, nil
}

// WatchOptions are the options of Watch.
type WatchOptions struct {
	Targets []string      `json:"targets"` // as in Stat
	Delay   time.Duration `json:"delay"`   // interval between samples, at least 1 s
	Timeout time.Duration `json:"timeout"` // for the replies of each sample, as in Stat
	Count   int           `json:"count"`   // number of intervals; a negative number means until ctx is done
}

// minDelay is the minimum interval between samples. It limits the load that a watch causes.
const minDelay = time.Second

// Watch takes a sample every Delay and calls see with the changes since the previous sample, Count times. see
// runs in the caller's goroutine. If see returns an error, Watch returns it. Other errors are those of Stat,
// ErrGroupChanged, the cause of ctx, and ESHUTDOWN if the session has ended. The session does not expire
// during a watch. see may block, and may end the session itself, because the end of the session does not wait
// for it.
func (c *Console) Watch(ctx context.Context, key Key, o WatchOptions, see func([]Interval) error) error {
	x, err := c.begin(ctx, key)
	if err != nil {
		return err
	}
	defer x.end()
	tick := time.NewTicker(max(o.Delay, minDelay))
	defer tick.Stop()
	old, err := c.stat(x, o.Targets, o.Timeout)
	for k := 0; err == nil && k != o.Count; k++ {
		select {
		case <-tick.C:
		case <-x.ctx.Done():
			return stopped(x.ctx)
		}
		var now Sample
		if now, err = c.stat(x, o.Targets, o.Timeout); err != nil {
			break
		}
		var list []Interval
		if list, err = now.Since(old); err != nil {
			break
		}
		x.pause()
		err = see(list)
		if over := x.resume(); err == nil {
			err = over
		}
		old = now
	}
	return err
}
