package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"
)

// ErrFailed is returned by Run if the soak found violations. They are in its output.
var ErrFailed = errors.New("soak failed")

// Run runs a soak as the parent. child is a command that was not started yet; its process must call
// Serve with its standard input and output. Run writes samples and reports to w, and returns when both
// processes have finished. It returns ErrFailed if there were violations, or another error if the soak
// could not run. If ctx is done, the soak ends early.
func Run(ctx context.Context, c Config, child *exec.Cmd, w io.Writer, log *slog.Logger) error {
	if err := c.Validate(); err != nil {
		return err
	}
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	n := newNotes(out, in)
	reports, err := runParent(ctx, c, n, w, log)
	if err != nil {
		_ = in.Close()
		return errors.Join(err, child.Wait())
	}
	err = errors.Join(in.Close(), child.Wait())
	found := 0
	for k := range reports {
		reports[k].addTrends(&c)
		found += reports[k].Found
	}
	printReports(w, &c, reports)
	if err == nil && found > 0 {
		err = fmt.Errorf("%d violations: %w", found, ErrFailed)
	}
	return err
}

// runParent runs the soak in the parent, after the child was started, and returns the reports of the
// parent and, if it did not fail, of the child.
func runParent(ctx context.Context, c Config, n *notes, w io.Writer, log *slog.Logger) ([]Report, error) {
	p, err := begin(ctx, c, n, log)
	if err != nil {
		return nil, err
	}
	show := newSampleTable(w, &c)

	ctx, cancel := context.WithTimeout(ctx, c.Time)
	defer cancel()
	var theirs *Report // the child's report; valid when gone is closed
	drained, flushed, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel() // ends the soak if the child has died
		theirs = p.readNotes(show, drained, flushed)
	}()
	// Errors of write are ignored: they mean that the child has died, which the reader detects too.
	stopSent := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_ = n.write(&note{Topic: noteStop})
		close(stopSent)
	})

	p.work(ctx, func(s Sample) { show.add(parent, s) })
	<-stopSent
	_ = n.write(&note{Topic: noteDrained})
	await(drained, gone)
	_ = p.flush()
	await(flushed, gone)
	p.awaitIdle()
	<-gone
	reports := []Report{p.finish()}
	if theirs != nil {
		reports = append(reports, *theirs)
	}
	return reports, nil
}

// begin creates the parent's node, waits for the child's node, and sends the note to start.
func begin(ctx context.Context, c Config, n *notes, log *slog.Logger) (*process, error) {
	if err := n.write(&note{Topic: noteConfig, Config: c}); err != nil {
		return nil, err
	}
	p, err := newProcess(ctx, c, parent, n, log)
	if err != nil {
		return nil, err
	}
	x, err := n.read()
	if err != nil || x.Topic != noteReady {
		return nil, errors.Join(fmt.Errorf("child: not ready: %w", err), p.testNode.close())
	}
	if err := n.write(&note{Topic: noteStart}); err != nil {
		return nil, errors.Join(err, p.testNode.close())
	}
	return p, nil
}

// readNotes processes the child's notes until the child's report, which it returns. It returns nil if
// the pipe ends before the report. It closes drained and flushed when the child sends these notes.
func (p *process) readNotes(show *sampleTable, drained, flushed chan struct{}) *Report {
	for {
		x, err := p.notes.read()
		if err != nil {
			p.findings.add("child: %v", err)
			return nil
		}
		switch x.Topic {
		case notePage:
			p.comparePage(x.Page, x.Acked)
		case noteSample:
			show.add(child, x.Sample)
		case noteDrained:
			close(drained)
		case noteFlushed:
			close(flushed)
		case noteReport:
			return &x.Report
		}
	}
}

// await waits until a or b is closed.
func await(a, b <-chan struct{}) {
	select {
	case <-a:
	case <-b:
	}
}

// Serve runs a soak as the child. It reads notes of the parent from in and writes notes to out. It
// returns an error if the parent dies before the end.
func Serve(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	n := newNotes(in, out)
	x, err := n.read()
	if err != nil || x.Topic != noteConfig {
		return fmt.Errorf("no configuration: %w", err)
	}
	p, err := newProcess(ctx, x.Config, child, n, log)
	if err != nil {
		return err
	}
	if err := n.write(&note{Topic: noteReady}); err != nil {
		return err
	}
	if x, err := n.read(); err != nil || x.Topic != noteStart {
		return fmt.Errorf("no start: %w", err)
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	drained, flushed := make(chan struct{}), make(chan struct{})
	read := make(chan error, 1)
	go func() { read <- p.followParent(stop, drained, flushed) }()
	p.work(ctx, func(s Sample) { _ = n.write(&note{Topic: noteSample, Sample: s}) })
	if err := n.write(&note{Topic: noteDrained}); err != nil {
		return err
	}
	lost := func(done <-chan struct{}) error {
		select {
		case <-done:
			return nil
		case err := <-read:
			return fmt.Errorf("parent: %w", err)
		}
	}
	if err := lost(drained); err != nil {
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := lost(flushed); err != nil {
		return err
	}
	p.awaitIdle()
	// The goroutine that reads the parent's notes still runs, because it waits for the end of the input.
	p.baseline.Goroutines++
	if err := n.write(&note{Topic: noteReport, Report: p.finish()}); err != nil {
		return err
	}
	if err := <-read; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// followParent processes the parent's notes until the pipe ends. It calls stop and closes drained and
// flushed when the parent sends these notes.
func (p *process) followParent(stop func(), drained, flushed chan struct{}) error {
	defer stop() // ends the soak if the parent has died
	for {
		x, err := p.notes.read()
		if err != nil {
			return err
		}
		switch x.Topic {
		case notePage:
			p.comparePage(x.Page, x.Acked)
		case noteStop:
			stop()
		case noteDrained:
			close(drained)
		case noteFlushed:
			close(flushed)
		}
	}
}

// sampleTable prints a table of the samples of both processes, with about sampleRows rows per process.
type sampleTable struct {
	mu    sync.Mutex // guards the rest
	w     io.Writer
	every time.Duration
	next  [2]time.Duration
	last  [2]Sample
}

const sampleRows = 60

func newSampleTable(w io.Writer, c *Config) *sampleTable {
	fmt.Fprintf(w, "soak of %v, seed %d, %d rail(s), window %d, transaction timeout %v, kills every %v to %v on each side\n",
		c.Time, c.Seed, c.Rails, c.Window, c.Transaction, c.KillMin, c.KillMax)
	fmt.Fprintf(w, "%8s %-6s %10s %10s %10s %10s %10s %10s %8s %7s\n",
		"at", "side", "done/s", "parked", "live KiB", "sinks KiB", "RSS KiB", "goroutines", "files", "kills")
	return &sampleTable{w: w, every: max(c.Sample, c.Time/sampleRows)}
}

func (h *sampleTable) add(s side, x Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.At < h.next[s] {
		return
	}
	h.next[s] = x.At + h.every - h.every/8 // ticks may be slightly early or late
	rate := float64(x.Done-h.last[s].Done) / (x.At - h.last[s].At).Seconds()
	h.last[s] = x
	fmt.Fprintf(h.w, "%8v %-6s %10.0f %10d %10d %10d %10d %10d %8d %7d\n", x.At.Round(100*time.Millisecond), s,
		rate, x.Parked, x.Live>>10, x.Sinks>>10, x.Resident>>10, x.Goroutines, x.Descriptors, x.Kills)
}
