package remote

// Stats are statistics of rings and sockets (transport 9.7).
type Stats struct {
	// Submissions is the number of ring entries sent to lnetd. Completions is the number received from it.
	Submissions, Completions uint64
	// BellWrites is the number of times that this process has woken lnetd, and BellReads the number of times
	// that lnetd has woken it; both are system calls. Sleeps is how often a goroutine here was about to
	// sleep.
	BellWrites, BellReads, Sleeps uint64
	// Requests is the number of requests sent on control sockets.
	Requests uint64
	// Stale is the number of completions that were discarded because they concerned no op in progress. lnetd
	// should never send such a completion.
	Stale uint64
	// Host contains the statistics of lnetd's side of the rings.
	Host HostStats
}

// HostStats are statistics of lnetd's side of the rings.
type HostStats struct {
	// Submissions is the number of entries that lnetd has received, Completions the number that it has sent.
	Submissions, Completions uint64
	// BellWrites is the number of times that lnetd has woken programs, and BellReads the number of times that
	// programs have woken it; both are system calls. Sleeps is how often lnetd was about to sleep.
	BellWrites, BellReads, Sleeps uint64
}

func (s *Stats) add(other *Stats) {
	s.Submissions += other.Submissions
	s.Completions += other.Completions
	s.BellWrites += other.BellWrites
	s.BellReads += other.BellReads
	s.Sleeps += other.Sleeps
	s.Requests += other.Requests
	s.Stale += other.Stale
	s.Host.Submissions += other.Host.Submissions
	s.Host.Completions += other.Host.Completions
	s.Host.BellWrites += other.Host.BellWrites
	s.Host.BellReads += other.Host.BellReads
	s.Host.Sleeps += other.Host.Sleeps
}

// Stats returns the total of all domains of the Core, including closed ones. It neither blocks nor sends a
// request.
func (c *Core) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.closedStats
	for d := range c.domains {
		one := d.stats()
		s.add(&one)
	}
	return s
}

// stats returns the total of all TMs of the domain, including those that have ended.
func (d *domain) stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.endedStats
	for t := range d.tms {
		one := t.stats() // its ring is mapped while it is in d.tms
		s.add(&one)
	}
	s.Requests = d.connection.requests.Load()
	return s
}

// stats returns the statistics of a TM whose ring is mapped.
func (t *tm) stats() Stats {
	put, taken := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	submissions, completions := t.ring.HostStats()
	return Stats{
		Submissions: put.Put, BellWrites: put.Wakeups,
		Completions: taken.Released, BellReads: taken.Reads, Sleeps: taken.Sleeps, Stale: t.stale.Load(),
		Host: HostStats{
			Submissions: submissions.Released, BellReads: submissions.Reads, Sleeps: submissions.Sleeps,
			Completions: completions.Put, BellWrites: completions.Wakeups,
		},
	}
}
