package transport

import "time"

// Stats are the statistics of one queue (transport 3.12).
type Stats struct {
	Adds, Cancels       uint64        // calls that took effect
	Successes, Failures uint64        // events; for MsgRecv, Failures also grows with the deficit
	TimeInQueue         time.Duration // total time from Add to the final event
	Bytes, MaxBytes     uint64        // of events with nil Err
}

// succeeded counts an event with nil Err that moved length bytes.
func (s *Stats) succeeded(length int) {
	n := uint64(length)
	s.Successes++
	s.Bytes += n
	s.MaxBytes = max(s.MaxBytes, n)
}

// Stats returns the statistics of a queue since the TM was created or since ResetStats, as one consistent
// snapshot. It returns zeros if q is invalid.
func (tm *TransferMachine) Stats(q QueueType) Stats {
	if q >= QueueTypes {
		return Stats{}
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.stats[q]
}

// AllStats returns the statistics of all queues, as one consistent snapshot.
func (tm *TransferMachine) AllStats() [QueueTypes]Stats {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.stats
}

// ResetStats sets the statistics of the named queues to zero, or of all queues if the list is empty. It
// returns the previous statistics of all queues, as one consistent snapshot.
func (tm *TransferMachine) ResetStats(queues ...QueueType) [QueueTypes]Stats {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	were := tm.stats
	if len(queues) == 0 {
		tm.stats = [QueueTypes]Stats{}
	}
	for _, q := range queues {
		if q < QueueTypes {
			tm.stats[q] = Stats{}
		}
	}
	return were
}

// QueueLength returns the number of buffers on a queue.
func (tm *TransferMachine) QueueLength(q QueueType) int {
	if q >= QueueTypes {
		return 0
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.queues[q].length
}
