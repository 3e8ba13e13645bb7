package transport

import (
	"context"
	"log/slog"
	"time"
)

// statePollInterval is the interval at which LogStats checks whether the TM has ended. LogStats polls the
// state so that it adds no cost to the TM's events.
const statePollInterval = time.Second

// LogStats logs the statistics of the TM at the given interval, with one line for each queue whose statistics
// have changed since the previous time. The values are totals since the TM was created or since ResetStats:
// buffers added, cancelled, completed and failed, bytes, the largest transfer, and the time in the queue.
//
// LogStats blocks, so call it in a goroutine. It returns after a final log when ctx ends, or within a second
// after the TM has stopped, failed or been closed. It panics if every is not positive.
func (tm *TransferMachine) LogStats(ctx context.Context, log *slog.Logger, every time.Duration) {
	ticker, look := time.NewTicker(every), time.NewTicker(statePollInterval)
	defer ticker.Stop()
	defer look.Stop()
	var last [QueueTypes]Stats
	var address string
	for over := false; !over; {
		due := true
		select {
		case <-ticker.C:
		case <-look.C:
			s := tm.State()
			over = s == StateUndefined || s == StateStopped || s == StateFailed
			due = over
		case <-ctx.Done():
			over = true
		}
		if self := tm.Self(); self != nil {
			address = self.Address().String()
		}
		if !due {
			continue
		}
		now := tm.AllStats()
		for q := range now {
			if now[q] != last[q] && now[q] != (Stats{}) { // zero values only mean that ResetStats was called
				now[q].log(log, address, QueueType(q))
			}
		}
		last = now
	}
}

func (s *Stats) log(log *slog.Logger, tm string, q QueueType) {
	log.Info("transfer machine statistics", "tm", tm, "queue", q.String(), "added", s.Adds, "cancelled", s.Cancels,
		"completed", s.Successes, "failed", s.Failures, "bytes", s.Bytes, "max_bytes", s.MaxBytes, "time_in_queue", s.TimeInQueue)
}
