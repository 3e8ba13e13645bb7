package timeline

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/svg"
)

// Sizes of the picture in pixels.
const (
	width      = 1200
	margin     = 16
	lanesLeft  = 150
	lanesWidth = width - lanesLeft - 2*margin
	laneHeight = 24
	runHeight  = 14
	callHeight = 8
	headSize   = 56 // heading, counts and axis above the lanes
	nameLength = 18 // characters for which there is room before lanesLeft
	legendSize = 52
	ticks      = 8 // about this many marks on the axis
)

// class is the class of the picture, which the style sheet names.
const class = "timelines"

// style is the style sheet of the picture, for light and dark displays.
var style = svg.Style(class) + `.timelines .title { font: 600 16px system-ui, sans-serif; }
.timelines .lane { stroke: #d1d9e0; stroke-width: 1; }
.timelines .run { fill: #9ec6f3; }
.timelines .call { fill: #0550ae; }
.timelines .wake { stroke: #bc4c00; stroke-width: 1.5; fill: none; }
.timelines .handoff { stroke-dasharray: 3 2; }
.timelines .tip { fill: #bc4c00; }
@media (prefers-color-scheme: dark) {
.timelines .lane { stroke: #3d444d; }
.timelines .run { fill: #1f4f8f; }
.timelines .call { fill: #79c0ff; }
.timelines .wake { stroke: #ffa657; }
.timelines .tip { fill: #ffa657; }
}
`

// WriteSVG writes a picture with the steps of each timeline, one below the other, each on its own scale of time. A
// thread is a lane, on which the times are marked when it runs and when it makes system calls. A wake-up is an
// arrow between two lanes. WriteSVG returns the error of w.
func WriteSVG(w io.Writer, list []*Timeline) error {
	d := &drawing{y: margin}
	d.legend()
	var all []string
	for _, t := range list {
		d.timeline(t)
		all = append(all, t.summary())
	}
	var b strings.Builder
	svg.Begin(&b, class, width, d.y, "Timelines of requests", strings.Join(all, " "), style)
	b.WriteString(d.b.String())
	svg.End(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// summary describes the timeline in a sentence.
func (t *Timeline) summary() string {
	return fmt.Sprintf("%s: %.1f µs, %.0f wake-ups (%.0f of them hand-offs), %.0f context switches, %.0f system calls.",
		t.Name, t.Median, t.Counts.Wakeups, t.Counts.HandOffs, t.Counts.Switches, t.Counts.Calls)
}

// drawing is a picture that is drawn from the top to the bottom.
type drawing struct {
	b strings.Builder
	y int

	// scale is the number of pixels per microsecond of the current timeline, whose lanes are the rows of its threads.
	scale float64
	end   float64
	lanes map[Thread]int
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(class string, x, y int, s string) {
	d.printf(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(s))
}

// legend writes the title and what the marks mean.
func (d *drawing) legend() {
	d.text("title", margin, d.y+12, "Timelines of requests")
	y := d.y + 36
	d.printf(`<rect class="run" x="%d" y="%d" width="24" height="%d"/>`, margin, y-11, runHeight)
	d.text("detail", margin+30, y, "the thread runs")
	d.printf(`<rect class="call" x="%d" y="%d" width="24" height="%d"/>`, margin+160, y-8, callHeight)
	d.text("detail", margin+190, y, "in a system call")
	d.printf(`<path class="wake" d="M%d %dh24"/>`, margin+330, y-4)
	d.text("detail", margin+360, y, "wakes another thread")
	d.printf(`<path class="wake handoff" d="M%d %dh24"/>`, margin+520, y-4)
	d.text("detail", margin+550, y, "wakes a thread of the same process")
	d.y += legendSize
}

// timeline draws one timeline.
func (d *drawing) timeline(t *Timeline) {
	d.lanes, d.end = map[Thread]int{}, t.Median
	d.scale = lanesWidth / max(t.Median, 0.1)
	d.text("heading", margin, d.y+16, t.summary())
	d.y += headSize
	threads := t.threads()
	bottom := d.y + len(threads)*laneHeight
	for us, step := 0.0, tickStep(t.Median); us <= t.Median; us += step {
		d.printf(`<path class="lane" d="M%d %dV%d"/>`, d.x(us), d.y-6, bottom)
		d.text("detail", d.x(us)-4, d.y-10, fmt.Sprintf("%g µs", us))
	}
	for k, thread := range threads {
		y := d.y + k*laneHeight + laneHeight/2
		d.lanes[thread] = y
		d.text("", margin, y+4, svg.Cut(thread.String(), nameLength))
		d.printf(`<path class="lane" d="M%d %dH%d"/>`, lanesLeft, y, lanesLeft+lanesWidth)
	}
	for _, thread := range threads {
		d.lane(t, thread)
	}
	for k := range t.Steps {
		if s := &t.Steps[k]; s.Action == Wake || s.Action == Woken {
			d.wake(s)
		}
	}
	d.y = bottom + margin
}

// threads returns the threads of the steps. Those of one process are beside each other. Otherwise the order is that
// in which they first appear.
func (t *Timeline) threads() (list []Thread) {
	add := func(thread Thread) {
		if slices.Contains(list, thread) {
			return
		}
		at := len(list)
		for k, other := range list {
			if other.Process == thread.Process {
				at = k + 1
			}
		}
		list = slices.Insert(list, at, thread)
	}
	for k := range t.Steps {
		add(t.Steps[k].Thread)
		if o := t.Steps[k].Other; o != nil {
			add(*o)
		}
	}
	return list
}

// tickStep returns the distance between the marks of an axis: 1, 2 or 5 times a power of ten.
func tickStep(length float64) float64 {
	step := 1.0
	for k := 0; length/step > ticks; k++ {
		step *= [...]float64{2, 2.5, 2}[k%3]
	}
	return step
}

// x returns the horizontal position of a time within the timeline.
func (d *drawing) x(us float64) int { return lanesLeft + int(min(max(us, 0), d.end)*d.scale) }

// lane draws when a thread runs, and its system calls.
func (d *drawing) lane(t *Timeline, thread Thread) {
	var calls strings.Builder
	runs, from, call := t.runsFirst(thread), 0.0, (*Step)(nil)
	mark := func(until float64) {
		if call != nil {
			d.box(&calls, "call", callHeight, thread, max(from, call.At), min(until, call.end(d.end)), call.Text())
		}
	}
	for k := range t.Steps {
		s := &t.Steps[k]
		if s.Thread != thread {
			continue
		}
		switch s.Action {
		case Run:
			runs, from = true, s.At
		case Sleep, Preempt:
			mark(s.At)
			d.box(&d.b, "run", runHeight, thread, from, s.At, fmt.Sprintf("%s runs for %.1f µs on CPU %d", thread, s.At-from, s.CPU))
			runs = false
		case Call:
			mark(s.At)
			call = s
		}
	}
	if runs {
		mark(d.end)
		d.box(&d.b, "run", runHeight, thread, from, d.end, thread.String()+" runs")
	}
	d.b.WriteString(calls.String())
}

// runsFirst reports whether a thread runs when the request starts.
func (t *Timeline) runsFirst(thread Thread) bool {
	for k := range t.Steps {
		if s := &t.Steps[k]; s.Thread == thread && s.Action != Woken {
			return s.Action != Run
		}
	}
	return false
}

// end returns when a system call ends, or last if that was not recorded.
func (s *Step) end(last float64) float64 {
	if s.Result == "" {
		return last
	}
	return s.At + s.For
}

// box draws a rectangle on the lane of a thread, with a text that is shown on demand.
func (d *drawing) box(b *strings.Builder, class string, height int, thread Thread, from, to float64, text string) {
	if to <= from {
		return
	}
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"><title>%s</title></rect>`+"\n",
		class, d.x(from), d.lanes[thread]-height/2, max(1, d.x(to)-d.x(from)), height, html.EscapeString(text))
}

// wake draws an arrow from the thread that wakes to the thread that is woken. If another program or a timer wakes
// it, the arrow is short.
func (d *drawing) wake(s *Step) {
	x, to, from, look := d.x(s.At), d.lanes[s.Thread], d.lanes[s.Thread]-laneHeight/2, "wake"
	if s.Other != nil {
		from, to = to, d.lanes[*s.Other]
	}
	if s.HandOff {
		look += " handoff"
	}
	tip := 5
	if to < from {
		tip = -5
	}
	d.printf(`<g><title>%s</title><path class="%s" d="M%d %dV%d"/><path class="tip" d="M%d %dl-3 %dh6z"/></g>`,
		html.EscapeString(fmt.Sprintf("%.1f µs: %s%s", s.At, s.Thread, s.Text())), look, x, from, to, x, to, -tip)
}
