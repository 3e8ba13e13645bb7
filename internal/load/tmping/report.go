package tmping

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/transport"
)

// Report has the counters of the server, of one client, or of all clients together.
type Report struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// Queues is in the order of transport.QueueType.
	Queues [transport.QueueTypes]Queue `json:"queues"`
	// Wakeups is set for a server with synchronous delivery, and nil otherwise.
	Wakeups *tmhost.Wakeups `json:"wakeups,omitempty"`
	Errors  uint64          `json:"errors"`
	Retries uint64          `json:"retries"`
}

// Queue has the counters of one queue.
type Queue struct {
	Name      string `json:"name"`
	Adds      uint64 `json:"adds"`
	Cancels   uint64 `json:"cancels"`
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	// Time is the sum of the times that all buffers spent in the queue.
	Time     time.Duration `json:"time_ns"`
	Bytes    uint64        `json:"bytes"`
	MaxBytes uint64        `json:"max_bytes"`
}

// Report returns the server's counters since its start or the last Reset.
func (s *Server) Report() Report { return s.report(s.loop.TM.AllStats(), s.loop.Wakeups()) }

// Reset sets the server's counters to 0 and returns their previous values. Receive buffers that are in
// the queue now count as added afterwards.
func (s *Server) Reset() Report {
	queued := uint64(s.loop.TM.QueueLength(transport.MsgRecv))
	r := s.report(s.loop.TM.ResetStats(), s.loop.ResetWakeups())
	s.mu.Lock()
	s.errors, s.queued = 0, queued
	s.mu.Unlock()
	return r
}

func (s *Server) report(stats [transport.QueueTypes]transport.Stats, w tmhost.Wakeups) Report {
	r := newReport("server", stats)
	if self := s.loop.TM.Self(); self != nil {
		r.Address = self.String()
	}
	if s.loop.Delivery != tmhost.Async {
		r.Wakeups = &w
	}
	s.mu.Lock()
	r.Errors = s.errors
	r.Queues[transport.MsgRecv].Adds += s.queued
	s.mu.Unlock()
	return r
}

func (c *client) report() Report {
	r := newReport(c.name, c.loop.TM.AllStats())
	if self := c.loop.TM.Self(); self != nil {
		r.Address = self.String()
	}
	r.Errors, r.Retries = c.errors, c.retries
	return r
}

func newReport(name string, stats [transport.QueueTypes]transport.Stats) Report {
	r := Report{Name: name}
	for k, s := range stats {
		r.Queues[k] = Queue{
			Name: transport.QueueType(k).String(), Adds: s.Adds, Cancels: s.Cancels, Successes: s.Successes,
			Failures: s.Failures, Time: s.TimeInQueue, Bytes: s.Bytes, MaxBytes: s.MaxBytes,
		}
	}
	return r
}

// total returns the sum of the clients' reports.
func total(reports []Report) Report {
	t := newReport("Client total", [transport.QueueTypes]transport.Stats{})
	for _, r := range reports {
		for k, q := range r.Queues {
			s := &t.Queues[k]
			s.Adds += q.Adds
			s.Cancels += q.Cancels
			s.Successes += q.Successes
			s.Failures += q.Failures
			s.Time += q.Time
			s.Bytes += q.Bytes
			s.MaxBytes = max(s.MaxBytes, q.MaxBytes)
		}
		t.Errors += r.Errors
		t.Retries += r.Retries
	}
	return t
}

// Write prints the report as a table (transport 10.1).
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "%s", r.Name)
	if r.Address != "" {
		fmt.Fprintf(w, " %s", r.Address)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "Queue\t#Add\t#Del\t#Succ\t#Fail\tTime in Q\tTotal\tMax\t")
	for _, q := range r.Queues {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t\n",
			q.Name, q.Adds, q.Cancels, q.Successes, q.Failures, clock(q.Time), q.Bytes, q.MaxBytes)
	}
	_ = t.Flush()
	if r.Wakeups != nil {
		fmt.Fprintf(w, "Loops: %d worked, %d blocked\n", r.Wakeups.Worked, r.Wakeups.Blocked)
		fmt.Fprintf(w, "Wakeups: %d by work queue, %d by net\n", r.Wakeups.Work, r.Wakeups.Net)
	}
	fmt.Fprintf(w, "Errors: %d, retries: %d\n", r.Errors, r.Retries)
}

// clock formats a time as hh:mm:ss.mmm.
func clock(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000)
}
