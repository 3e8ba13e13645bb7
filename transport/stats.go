package transport

import "time"

// Stats are the figures of one queue (transport 3.12).
type Stats struct {
	Adds, Cancels       uint64        // calls that did something
	Successes, Failures uint64        // events; of MsgRecv, failures grow with the deficit, too
	TimeInQueue         time.Duration // from Add to the final event, of all
	Bytes, MaxBytes     uint64        // of events with nil Err
}

// succeeded counts an event with nil Err, of so many bytes.
func (s *Stats) succeeded(length int) {
	n := uint64(length)
	s.Successes++
	s.Bytes += n
	s.MaxBytes = max(s.MaxBytes, n)
}

// Stats are the figures of a queue since the TM was made, or since ResetStats, in one
// moment. There are none of a queue that there is not.
func (tm *TransferMachine) Stats(q QueueType) Stats {
	if q >= QueueTypes {
		return Stats{}
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.stats[q]
}

// AllStats are those of all queues, in one moment.
func (tm *TransferMachine) AllStats() [QueueTypes]Stats {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.stats
}

// ResetStats sets the figures of some queues, or, with none named, of all, to zero, and
// returns what all were, in one moment.
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

// QueueLength is how many buffers are on a queue.
func (tm *TransferMachine) QueueLength(q QueueType) int {
	if q >= QueueTypes {
		return 0
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.queues[q].length
}
