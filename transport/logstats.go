package transport

import (
	"context"
	"log/slog"
	"time"
)

// stateLook is how often LogStats looks whether the TM has ended: it costs what goes on in the TM nothing.
const stateLook = time.Second

// LogStats logs the figures of the TM every so often, a line for each queue that was used since
// the line before: what was added, cancelled, completed and failed, the bytes, the largest piece,
// and the time in the queue, all since the TM was made or ResetStats. It returns when ctx ends, or
// within a second after the TM has stopped, failed, or was closed, after a last time. It blocks: a
// program calls it in a goroutine. It panics if every is not positive.
func (tm *TransferMachine) LogStats(ctx context.Context, log *slog.Logger, every time.Duration) {
	ticker := time.NewTicker(min(every, stateLook))
	defer ticker.Stop()
	next := time.Now().Add(every)
	var last [QueueTypes]Stats
	var address string
	for over := false; !over; {
		select {
		case <-ticker.C:
			s := tm.State()
			over = s == StateUndefined || s == StateStopped || s == StateFailed
		case <-ctx.Done():
			over = true
		}
		if self := tm.Self(); self != nil {
			address = self.Address().String()
		}
		if !over && time.Now().Before(next) {
			continue
		}
		next = next.Add(every)
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
