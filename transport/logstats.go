package transport

import (
	"context"
	"log/slog"
	"time"
)

// stateLook is how often LogStats looks whether the TM has ended, which costs the TM's events nothing.
const stateLook = time.Second

// LogStats logs the figures of the TM every so often, a line for each queue that was used since
// the line before: what was added, cancelled, completed and failed, the bytes, the largest piece,
// and the time in the queue, all since the TM was made or ResetStats. It returns when ctx ends, or
// within a second after the TM has stopped, failed, or was closed, after a last time. It blocks: a
// program calls it in a goroutine. It panics if every is not positive.
func (tm *TransferMachine) LogStats(ctx context.Context, log *slog.Logger, every time.Duration) {
	ticker, look := time.NewTicker(every), time.NewTicker(stateLook)
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
			if now[q] != last[q] && now[q] != (Stats{}) { // as after ResetStats
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
