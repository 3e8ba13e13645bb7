package transport

import (
	"context"
	"log/slog"
	"time"
)

// LogStats logs the figures of the TM every so often, a line for each queue that was used since
// the line before: what was added, cancelled, completed and failed, the bytes, the largest piece,
// and the time in the queue, all since the TM was made or ResetStats. It returns when ctx ends, or
// when the TM has stopped or failed, after a last time. It blocks: a program calls it in a goroutine
// of its own. It panics if every is not positive.
func (tm *TransferMachine) LogStats(ctx context.Context, log *slog.Logger, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last [QueueTypes]Stats
	var address string
	for over := false; !over; {
		changed := tm.channel.Wait()
		state := tm.State()
		if self := tm.Self(); self != nil {
			address = self.Address().String()
		}
		if over = state == StateStopped || state == StateFailed; !over {
			select {
			case <-changed:
				continue
			case <-ticker.C:
			case <-ctx.Done():
				over = true
			}
		}
		now := tm.AllStats()
		for q := range now {
			if now[q] != last[q] {
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
