package clients

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Info describes a connection of a client.
type Info struct {
	// ID is the number of the connection.
	ID uint64
	// Process is the client's process. Program is the name that the client has sent in HELLO. It is empty
	// before HELLO.
	Process
	Program string
	// Rule is the name of the rule that applies to the client.
	Rule  string
	Since time.Time
	// Ending reports whether the connection has ended and its resources are being released. This takes
	// long if operations of the client are still under way.
	Ending bool

	// Buffers and Areas are the numbers of buffers and areas. Bytes is the total size of the areas.
	Buffers, Areas int
	Bytes          int64
	// Requests counts the control requests of the client.
	Requests uint64
	TMs      []TMInfo
}

// TMInfo describes a client's TM.
type TMInfo struct {
	Address transport.Address
	// Queues is indexed by transport.QueueType.
	Queues [transport.QueueTypes]QueueFigures
	// Entries is the number of entries of the completion ring. Waiting is the number of those that the
	// client has not read yet. Kept is the number of completions that lnetd keeps because the ring has no
	// room for them.
	Entries, Waiting, Kept int
	// Overflowed counts the completions that were ever kept. Rejected counts operations that were not
	// started because they were invalid.
	Overflowed, Rejected uint64
	// Polls counts how often lnetd polled the submission ring before it slept, and Found how often that found
	// a submission. WordWaits counts those Waits in which lnetd slept on the ring's flag, and not at its
	// descriptor.
	Polls, Found, WordWaits uint64
	// Submissions and Completions count the entries of the two rings that were used. Waits counts how
	// often lnetd slept because the client submitted nothing, BellReads how often the client woke it,
	// and BellWrites how often it woke the client.
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
	// Bytes is the number of bytes that all completed operations have moved. MaxBytes is the largest
	// number of one completion.
	Bytes, MaxBytes uint64
	// Added counts operations that were submitted to the Core, including those that it rejected. InQueue
	// is the total time in seconds for which completed operations were under way. A time.Duration would
	// overflow, because buffers may be in a queue for long.
	Added   uint64
	InQueue float64
}

// add adds all fields of o except Depth to f.
func (f *QueueFigures) add(o *QueueFigures) {
	f.Completed += o.Completed
	f.Failed += o.Failed
	f.Cancelled += o.Cancelled
	f.Bytes += o.Bytes
	f.MaxBytes = max(f.MaxBytes, o.MaxBytes)
	f.Added += o.Added
	f.InQueue += o.InQueue
}

// Clients returns a description of all connections, ordered by ID.
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

// Drop disconnects the client with a connection ID. It does not wait until the client's resources are
// released. It returns ENOENT if no connection has that ID.
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
	usage := c.server.users.read(&c.usage)
	c.mu.Lock()
	defer c.mu.Unlock()
	i := Info{
		ID: c.id, Process: c.process, Program: c.program, Since: c.since, Ending: c.ending, Requests: c.requests,
		Buffers: int(usage[ofBuffers]), Areas: int(usage[ofAreas]), Bytes: usage[ofBytes],
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
	taken, put, waits := t.ring.Submissions.Stats(), t.ring.Completions.Stats(), t.ring.Submissions.WaitStats()
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := 0
	if !t.ringClosed {
		_ = guardFault(func() error { // ignores a fault, which the next write to the ring reports
			room, err := t.ring.Completions.Room()
			waiting = t.entries - room
			return err
		})
	}
	i := TMInfo{
		Address: t.address, Queues: t.figures, Entries: t.entries, Waiting: waiting, Kept: len(t.kept),
		Overflowed: t.overflowed, Rejected: t.rejected,
		Polls: waits.Polls, Found: waits.Found, WordWaits: waits.WordSleeps,
		Submissions: taken.Released, Completions: put.Put, Waits: taken.Sleeps, BellReads: taken.Reads, BellWrites: put.Wakeups,
	}
	for q := range i.Queues {
		i.Queues[q].Depth = t.depth[q]
	}
	return i
}
