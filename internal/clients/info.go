package clients

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Info is what there is to be seen of a connection.
type Info struct {
	// ID is the number of the connection.
	ID uint64
	// Process has it; Program is what it calls itself, empty before HELLO.
	Process
	Program string
	// Rule is the name of the rule that holds.
	Rule  string
	Since time.Time
	// Ending says that it is gone, and operations of its have not ended yet.
	Ending bool

	// Buffers and Areas are numbers, Bytes is the size of the areas.
	Buffers, Areas int
	Bytes          int64
	// Requests counts its control records.
	Requests uint64
	TMs      []TMInfo
}

// TMInfo is what there is to be seen of a TM.
type TMInfo struct {
	Address transport.Address
	// Queues are by transport.QueueType.
	Queues [transport.QueueTypes]QueueFigures
	// Entries is how many the completion ring has, Waiting how many of them wait for the
	// client, Reserved how many are for operations under way.
	Entries, Waiting, Reserved int
	// Rejected counts operations that did not begin.
	Rejected uint64
	// Submissions and Completions count entries of the rings; Waits is how often lnetd went
	// to sleep for want of submissions, BellReads how often it was woken then, BellWrites how
	// often it had to wake the client.
	Submissions, Completions     uint64
	Waits, BellReads, BellWrites uint64
}

// QueueFigures are those of one queue of a TM.
type QueueFigures struct {
	// Depth is how many operations are under way.
	Depth int
	// Completed and Failed count completions, without an error and with one.
	Completed, Failed uint64
	// Cancelled counts the completions with ECANCELED, which are among the failed ones.
	Cancelled uint64
	// Bytes is how much was moved, MaxBytes the most by one completion.
	Bytes, MaxBytes uint64
	// Added counts operations that were handed to LNet, also those that it refused. InQueue is how long
	// those that began and have ended were under way, all together, in seconds: buffers that are
	// posted for good would soon exceed a time.Duration.
	Added   uint64
	InQueue float64
}

// add adds other figures, but for the depth.
func (f *QueueFigures) add(o *QueueFigures) {
	f.Completed += o.Completed
	f.Failed += o.Failed
	f.Cancelled += o.Cancelled
	f.Bytes += o.Bytes
	f.MaxBytes = max(f.MaxBytes, o.MaxBytes)
	f.Added += o.Added
	f.InQueue += o.InQueue
}

// Clients tells of all connections, in the order of their numbers.
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

// Drop cuts a connection off. ENOENT: there is none with that number. It does not wait for
// its end.
func (s *Server) Drop(id uint64) error {
	s.mu.Lock()
	c := s.clients[id]
	s.mu.Unlock()
	if c == nil {
		return fmt.Errorf("clients: no connection %d: %w", id, syscall.ENOENT)
	}
	c.cutOff(fmt.Errorf("an administrator has dropped the connection: %w", syscall.ECONNABORTED))
	return nil
}

func (c *client) info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := Info{
		ID: c.id, Process: c.process, Program: c.program, Since: c.since, Ending: c.ending, Requests: c.requests,
		Buffers: int(c.used[ofBuffers]), Areas: int(c.used[ofAreas]), Bytes: c.used[ofBytes],
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
	if !t.gone {
		_ = touch(func() error { // whoever writes to the ring sees to it
			room, err := t.ring.Completions.Room()
			if err == nil {
				t.update(room)
			}
			return err
		})
	}
	i := TMInfo{
		Address: t.address, Queues: t.figures, Entries: t.entries, Waiting: t.waiting(), Reserved: t.reserved, Rejected: t.rejected,
		Submissions: taken.Taken, Completions: put.Put, Waits: taken.Sleeps, BellReads: taken.Reads, BellWrites: put.Rung,
	}
	for q := range i.Queues {
		i.Queues[q].Depth = t.depth[q]
	}
	return i
}
