package daemon

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/node"
)

const (
	// watchPause is the maximum time between two checks of the node.
	watchPause = 5 * time.Second
	// checksPerWatchdog is the minimum number of checks per watchdog interval, so that a check may
	// be late on a busy host.
	checksPerWatchdog = 4
	// stuckThreshold is how long a loop may be at one step without a watchdog. With a watchdog, the
	// limit is half of its interval.
	stuckThreshold = 15 * time.Second
)

// watch checks periodically whether the node's loops make progress. If they do, it feeds the
// watchdog. It also keeps the status current.
type watch struct {
	systemd *systemd.Manager
	loops   func() []node.Progress // empty while there is no node
	status  func() string
	log     *slog.Logger
}

// run checks until ctx is done.
func (w *watch) run(ctx context.Context) {
	pause, looks := watchTimes(w.systemd.Watchdog())
	v := progressCheck{looks: looks}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	told := ""
	for {
		stuck := strings.Join(v.check(w.loops()), ", ")
		switch {
		case stuck == "":
			if w.systemd.Watchdog() > 0 {
				w.systemd.Alive()
			}
			w.systemd.Status(w.status())
		case stuck != told:
			w.log.Error("the node is stuck; this is a bug in lnetd", "stuck", stuck, "watchdog", w.systemd.Watchdog().String())
			w.systemd.Status("stuck: the " + stuck + " of the node; " + w.status())
		}
		if stuck == "" && told != "" {
			w.log.Warn("the node recovered")
		}
		told = stuck
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchTimes returns the time between checks, and the number of checks after which a loop that
// has not moved is stuck. Checks are counted, because elapsed time misleads: a process that was
// suspended finds its loops unmoved once.
func watchTimes(watchdog time.Duration) (pause time.Duration, looks int) {
	if watchdog == 0 {
		return watchPause, int(stuckThreshold / watchPause)
	}
	pause = max(min(watchPause, watchdog/checksPerWatchdog), time.Millisecond)
	return pause, int(watchdog / 2 / pause)
}

// progressCheck compares successive observations of loops.
type progressCheck struct {
	looks int // number of checks at the same step that make a busy loop stuck
	seen  map[string]lastStep
}

// lastStep is an observation of a loop, with the number of times it has been the same.
type lastStep struct {
	step    uint64
	repeats int
}

// check returns the names of the loops that are stuck.
func (v *progressCheck) check(loops []node.Progress) (stuck []string) {
	now := make(map[string]lastStep, len(loops))
	for _, l := range loops {
		if l.Waits {
			continue
		}
		s := lastStep{step: l.Step}
		if before, ok := v.seen[l.Loop]; ok && before.step == l.Step {
			s.repeats = before.repeats + 1
		}
		if s.repeats >= v.looks {
			stuck = append(stuck, l.Loop)
		}
		now[l.Loop] = s
	}
	v.seen = now
	return stuck
}
