package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
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
	// stuckThreshold is how long a loop may stay at one step before it counts as stuck, if systemd
	// has no watchdog for lnetd. With a watchdog, the limit is half of the watchdog interval.
	stuckThreshold = 15 * time.Second
)

// watch checks periodically whether the node's loops make progress. If all of them do, it notifies
// systemd's watchdog; otherwise it logs the stuck loops and lets the watchdog restart lnetd. It also
// keeps the status line in systemd current.
type watch struct {
	systemd *systemd.Manager
	loops   func() []node.Progress // empty while there is no node
	status  func() string
	log     *slog.Logger
	// stuck holds the names of the loops that were stuck at the last check.
	stuck *atomic.Pointer[string]
}

// run checks the loops periodically until ctx is done.
func (w *watch) run(ctx context.Context) {
	pause, looks := watchTimes(w.systemd.Watchdog())
	v := progressCheck{looks: looks}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	told := ""
	for {
		stuck := strings.Join(v.check(w.loops()), ", ")
		w.stuck.Store(&stuck)
		switch {
		case stuck == "":
			if w.systemd.Watchdog() > 0 {
				w.systemd.Alive()
			}
			w.systemd.Status(w.status())
		case stuck != told:
			w.log.Error("the node is stuck; this is a bug in lnetd", "loops", stuck, "watchdog_interval", w.systemd.Watchdog().String())
			w.systemd.Status("stuck: the " + stuck + " of the node; " + w.status())
		}
		if stuck == "" && told != "" {
			w.log.Warn("the stuck node makes progress again")
		}
		told = stuck
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchTimes returns the time between two checks, and the number of checks after which a loop at the
// same step counts as stuck. The argument is the watchdog interval, or 0 without a watchdog. Checks are
// counted instead of measuring time, because time also passes while the process is suspended, and its
// loops cannot make progress then.
func watchTimes(watchdog time.Duration) (pause time.Duration, looks int) {
	if watchdog == 0 {
		return watchPause, int(stuckThreshold / watchPause)
	}
	pause = max(min(watchPause, watchdog/checksPerWatchdog), time.Millisecond)
	return pause, int(watchdog / 2 / pause)
}

// progressCheck detects stuck loops by comparing successive observations of them.
type progressCheck struct {
	looks int                 // number of checks at the same step that make a busy loop stuck
	seen  map[string]lastStep // the last observation of each busy loop, by its name
}

// lastStep is the step at which a loop was last observed, and how many checks in a row have repeated it.
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
