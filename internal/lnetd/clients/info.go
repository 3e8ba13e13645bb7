package clients

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Info describes a connection.
type Info struct {
	// ID is the number of the connection.
	ID uint64
	// Process is the client's process. Program is the name that it sent in HELLO; empty before.
	Process
	Program string
	// Rule is the name of the rule that applies.
	Rule  string
	Since time.Time
	// Ending reports whether the client has gone while operations of it are still under way.
	Ending bool

	// Buffers and Areas are counts. Bytes is the total size of the areas.
	Buffers, Areas int
	Bytes          int64
	// Requests counts control requests.
	Requests uint64
	TMs      []TMInfo
}

// TMInfo describes a TM.
type TMInfo struct {
	Address transport.Address
	// Queues is indexed by transport.QueueType.
	Queues [transport.QueueTypes]QueueFigures
	// Entries is the size of the completion ring. Waiting is how many entries the client has not read.
	// Reserved is how many are reserved for operations under way.
	Entries, Waiting, Reserved int
	// Rejected counts operations that did not start.
	Rejected uint64
	// Submissions and Completions count ring entries. Waits is how often lnetd slept because there were
	// no submissions, BellReads how often it was woken, and BellWrites how often it woke the client.
	Submissions, Completions     uint64
	Waits, BellReads, BellWrites uint64
}

// QueueFigures are the counters of one queue of a TM.
type QueueFigures struct {
	// Depth is the number of operations under way.
	Depth int
	// Completed counts completions without an error, Failed those with one.
	Completed, Failed uint64
	// Cancelled counts completions with ECANCELED. Failed includes them.
	Cancelled uint64
	// Bytes is how much data was moved, MaxBytes the largest single completion.
	Bytes, MaxBytes uint64
	// Added counts operations submitted to LNet, including those that it rejected. InQueue is the total
	// time, in seconds, that completed operations were under way. It is not a time.Duration, because
	// buffers that stay posted for long would overflow one.
	Added   uint64
	InQueue float64
}

// add adds o to f, except for Depth.
func (f *QueueFigures) add(o *QueueFigures) {
	f.Completed += o.Completed
	f.Failed += o.Failed
	f.Cancelled += o.Cancelled
	f.Bytes += o.Bytes
	f.MaxBytes = max(f.MaxBytes, o.MaxBytes)
	f.Added += o.Added
	f.InQueue += o.InQueue
}

// Clients describes all connections, ordered by ID.
func (s *Server) Clients() []Info {
	s.mu.Lock()
	all := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	infos := make([]Info, len(all))
	for i, c := range all {
		infos[i] = c.info()
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return infos
}

// Drop disconnects a client and does not wait for the end. It returns ENOENT if no connection has that
// ID.
func (s *Server) Drop(id uint64) error {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("clients: connection %d does not exist: %w", id, syscall.ENOENT)
	}
	c.cutOff(fmt.Errorf("an administrator closed the connection: %w", syscall.ECONNABORTED))
	return nil
}

func (c *client) info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := Info{
		ID: c.id, Process: c.process, Program: c.program, Since: c.since, Ending: c.ending, Requests: c.requests,
		Buffers: int(c.usage[ofBuffers]), Areas: int(c.usage[ofAreas]), Bytes: c.usage[ofBytes],
	}
	if c.rule != nil {
		i.Rule = c.rule.Name
	}
	for _, t := range c.tms {
		if t != nil {
			i.TMs = append(i.TMs, t.info())
		}
	}
	return i
}

func (t *tm) info() TMInfo {
	taken, put := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ringClosed {
		_ = guardFault(func() error { // the writer to the ring handles a fault
			room, err := t.ring.Completions.Room()
			if err == nil {
				t.update(room)
			}
			return err
		})
	}
	i := TMInfo{
		Address: t.address, Queues: t.figures, Entries: t.entries, Waiting: t.waiting(), Reserved: t.reserved, Rejected: t.rejected,
		Submissions: taken.Released, Completions: put.Put, Waits: taken.Sleeps, BellReads: taken.Reads, BellWrites: put.Wakeups,
	}
	for q := range i.Queues {
		i.Queues[q].Depth = t.depth[q]
	}
	return i
}
