package transport

import "time"

// Stats are the statistics of one queue (transport 3.12).
type Stats struct {
	Adds, Cancels       uint64        // calls of Add and Cancel that took effect
	Successes, Failures uint64        // events without and with Err; for MsgRecv, Failures also grows with the deficit
	TimeInQueue         time.Duration // total time from Add to the final event
	Bytes, MaxBytes     uint64        // total, and largest transfer, of events with nil Err
}

// succeeded counts an event with nil Err whose operation or message had length bytes.
func (s *Stats) succeeded(length int) {
	n := uint64(length)
	s.Successes++
	s.Bytes += n
	s.MaxBytes = max(s.MaxBytes, n)
}

// Stats returns the statistics of queue q since the TM was created or since ResetStats, as one consistent
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

// ResetStats sets the statistics of the given queues to zero; without arguments, those of all queues. It
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

// QueueLength returns the number of buffers on queue q, or 0 if q is invalid.
func (tm *TransferMachine) QueueLength(q QueueType) int {
	if q >= QueueTypes {
		return 0
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.queues[q].length
}
