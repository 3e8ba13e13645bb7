package daemon

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/systemd"
	"github.com/lnetd/lnetd/node"
)

const (
	// watchPause is the time between two looks at the node, at most.
	watchPause = 5 * time.Second
	// looksPerWatchdog is how often it is looked within the watchdog's time, at least: one
	// that comes late on a busy host costs nothing.
	looksPerWatchdog = 4
	// stuckAfter is how long a loop may be at one step if there is no watchdog; else it is
	// half of the watchdog's time.
	stuckAfter = 15 * time.Second
)

// watch looks again and again whether the node's loops get on. It feeds the watchdog if they
// do, and keeps the status true.
type watch struct {
	systemd *systemd.Manager
	loops   func() []node.Progress // none: there is no node yet
	status  func() string
	log     *slog.Logger
}

// run watches until ctx is done.
func (w *watch) run(ctx context.Context) {
	pause, looks := watchTimes(w.systemd.Watchdog())
	v := vigil{looks: looks}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	told := ""
	for {
		stuck := strings.Join(v.look(w.loops()), ", ")
		switch {
		case stuck == "":
			if w.systemd.Watchdog() > 0 {
				w.systemd.Alive()
			}
			w.systemd.Status(w.status())
		case stuck != told:
			w.log.Error("the node does not get on, which is a defect in lnetd", "stuck", stuck, "watchdog", w.systemd.Watchdog().String())
			w.systemd.Status("stuck: the " + stuck + " of the node; " + w.status())
		}
		if stuck == "" && told != "" {
			w.log.Warn("the node gets on again")
		}
		told = stuck
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchTimes are the pause between looks, and the number of looks that find a stuck loop where
// the one before them did. They are counted, not timed: a process that was stopped finds its
// loops where they were, once.
func watchTimes(watchdog time.Duration) (pause time.Duration, looks int) {
	if watchdog == 0 {
		return watchPause, int(stuckAfter / watchPause)
	}
	pause = max(min(watchPause, watchdog/looksPerWatchdog), time.Millisecond)
	return pause, int(watchdog / 2 / pause)
}

// vigil compares what was seen of loops.
type vigil struct {
	looks int // at a loop that is at work and at the same step make it a stuck one
	seen  map[string]sight
}

// sight is what was seen of a loop, and how often it has been the same since.
type sight struct {
	step  uint64
	again int
}

// look returns the names of the loops that are stuck.
func (v *vigil) look(loops []node.Progress) (stuck []string) {
	now := make(map[string]sight, len(loops))
	for _, l := range loops {
		if l.Waits {
			continue
		}
		s := sight{step: l.Step}
		if before, ok := v.seen[l.Loop]; ok && before.step == l.Step {
			s.again = before.again + 1
		}
		if s.again >= v.looks {
			stuck = append(stuck, l.Loop)
		}
		now[l.Loop] = s
	}
	v.seen = now
	return stuck
}
