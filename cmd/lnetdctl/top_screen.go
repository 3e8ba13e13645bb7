package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// Keys of "top", besides the first letters of sortKeys.
const (
	keyQuit = 'q'
	ctrlC   = 3
	ctrlD   = 4
)

const topHelp = "sort by: m)essages s)ent r)eceived d)ropped b)ytes n)ame   q)uit"

// topResult is the result of reading a sample.
type topResult struct {
	view *topView
	err  error
}

// topScreen shows intervals in full screen, count of them, or until the user or a signal ends it if count is 0. It
// continues while lnetd does not answer. It restores the terminal however it ends.
func (p *program) topScreen(ctx context.Context, t *top, interval time.Duration, count int64) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(signals)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	s, err := openScreen(p.stdin.(*os.File), p.stdout.(*os.File)) // fullScreen has checked the types
	if err != nil {
		return err
	}
	defer s.close()

	c := p.client()
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan topResult)
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		sampleEvery(ctx, c, t, interval, results)
	}()
	defer func() { cancel(); <-sampled }()

	shown := topResult{}
	for intervals := int64(-1); ; {
		select {
		case shown = <-results:
			if shown.err == nil {
				intervals++
			}
		case key, ok := <-s.keys:
			switch {
			case !ok, key == keyQuit, key == ctrlC, key == ctrlD:
				return nil
			}
			t.press(key)
		case <-resized:
		case by := <-signals:
			return endedBy(by)
		}
		width, height := s.size()
		if err := s.draw(t.screenLines(shown, height), width, height); err != nil {
			return err
		}
		if count > 0 && intervals >= count {
			return nil
		}
	}
}

// sampleEvery sends a sample of t to results, and another one after each interval, until ctx is done.
func sampleEvery(ctx context.Context, c *client.Client, t *top, interval time.Duration, results chan<- topResult) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		view, err := t.sample(ctx, c)
		select {
		case results <- topResult{view, err}:
		case <-ctx.Done():
			return
		}
		timer.Reset(interval)
	}
}

// press changes the order if the key selects one.
func (t *top) press(key byte) {
	for _, name := range sortKeys {
		if name[0] == key {
			t.sort = name
		}
	}
}

// screenLines returns what the screen shows.
func (t *top) screenLines(r topResult, height int) []string {
	lines := []string{topHelp, ""}
	switch v := r.view; {
	case r.err != nil:
		f := api.FaultOf(r.err).WithRemedy()
		lines = append(lines, f.Text, f.Cause, f.Remedy)
	case v == nil:
		lines = append(lines, "reading the counters")
	case v.seconds == 0:
		lines = append(lines, v.head(t.sort)[0], "the first rates follow in one interval")
	default:
		lines = append(lines, v.head(t.sort)...)
		lines = append(lines, v.fitting(t.sort, height-len(lines))...)
	}
	return lines
}

// fitting returns the tables of the kinds in at most height lines, if the screen is not very low. Each kind gets as many
// lines as the others, unless it needs fewer.
func (v *topView) fitting(sort string, height int) (lines []string) {
	const around = 3 // an empty line, the heading, and the number of objects that are left out
	room := make([]int, len(v.kinds))
	rest := height - around*len(v.kinds)
	for given := true; given; {
		given = false
		for k := range room {
			if rest > 0 && room[k] < v.kinds[k].total {
				room[k]++
				rest--
				given = true
			}
		}
	}
	for k := range v.kinds {
		lines = append(append(lines, ""), v.kinds[k].lines(sort, room[k])...)
	}
	return lines
}
