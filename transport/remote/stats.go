package remote

// Stats are figures of rings and sockets (transport 9.7).
type Stats struct {
	// Submissions is how many entries were handed to lnetd, Completions how many came from it.
	Submissions, Completions uint64
	// BellWrites is how often lnetd was woken, BellReads how often it has woken somebody here
	// who waits, and Sleeps how often one was about to. The former two are system calls.
	BellWrites, BellReads, Sleeps uint64
	// Requests is how many there were on control sockets.
	Requests uint64
	// Stale is how many completions were dropped since they told of no op under way: lnetd
	// makes none such.
	Stale uint64
	// Host is what lnetd says of its side of the rings.
	Host HostStats
}

// HostStats are figures of lnetd's side, of the same rings.
type HostStats struct {
	// Submissions is how many entries it has taken out, Completions how many it has put in.
	Submissions, Completions uint64
	// BellWrites is how often it has woken somebody here, BellReads how often it was woken, and
	// Sleeps how often it was about to sleep. The former two are system calls.
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

// Stats are the figures of all domains that the Core has or had. It does not block, and makes
// no request.
func (c *Core) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.past
	for d := range c.domains {
		one := d.stats()
		s.add(&one)
	}
	return s
}

// stats are those of a domain.
func (d *domain) stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.past
	for t := range d.tms {
		one := t.stats() // it is mapped as long as it is here
		s.add(&one)
	}
	s.Requests = d.connection.requests.Load()
	return s
}

// stats are those of a TM, whose ring is mapped.
func (t *tm) stats() Stats {
	put, taken := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	submissions, completions := t.ring.HostStats()
	return Stats{
		Submissions: put.Put, BellWrites: put.Rung,
		Completions: taken.Taken, BellReads: taken.Reads, Sleeps: taken.Sleeps, Stale: t.stale.Load(),
		Host: HostStats{
			Submissions: submissions.Taken, BellReads: submissions.Reads, Sleeps: submissions.Sleeps,
			Completions: completions.Put, BellWrites: completions.Rung,
		},
	}
}
