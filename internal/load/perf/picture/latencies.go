package picture

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/svg"
)

// laneHeight is the height in pixels of the percentiles of one method.
const laneHeight = 13

// HasLatencies reports whether the results have percentiles of times.
func (r *Results) HasLatencies() bool {
	for k := range r.cases {
		for _, m := range r.cases[k].measured {
			if m.latency != nil {
				return true
			}
		}
	}
	return false
}

// WriteLatencies writes a picture of the percentiles of times, on a logarithmic scale. It returns the error of w.
func (r *Results) WriteLatencies(w io.Writer) error {
	d := &drawing{}
	title := r.title + ": times of single exchanges"
	d.head(title, r.methods)
	d.y += headSize
	d.text("heading", margin, d.y-12, "Dot: half of the exchanges take at most this time. End of the thick line: 90 %. Circles: 99 and 99.9 %. End: all.")
	least, most := r.timeRange()
	at := func(us float64) int {
		return plotLeft + int((math.Log10(max(us, least))-math.Log10(least))/(math.Log10(most)-math.Log10(least))*(plotWidth+120))
	}
	d.y += 18
	top := d.y - 6
	rows := &drawing{y: d.y}
	var all []string
	for k := range r.cases {
		c := &r.cases[k]
		if rows.lanes(c, r.methods, at) {
			all = append(all, c.latencySentence())
		}
	}
	for us := least; us <= most; us *= 10 {
		d.line("grid", at(us), top, at(us), rows.y-rowGap+4)
		d.text("detail", at(us)-12, top-4, fmt.Sprintf("%g µs", us))
	}
	d.b.WriteString(rows.b.String())
	d.y = rows.y
	return d.write(w, title, strings.Join(all, " "))
}

// timeRange returns powers of ten that enclose all times, in microseconds.
func (r *Results) timeRange() (least, most float64) {
	least, most = math.Inf(1), 0
	for k := range r.cases {
		for _, m := range r.cases[k].measured {
			if m.latency != nil {
				least, most = min(least, m.latency.P50), max(most, m.latency.Max)
			}
		}
	}
	least = math.Pow(10, math.Floor(math.Log10(max(least, 1))))
	return least, max(least*10, math.Pow(10, math.Ceil(math.Log10(max(most, 1)))))
}

// lanes draws a lane for each method of a case that has percentiles. It returns false if there is no such method.
func (d *drawing) lanes(c *result, methods []method, at func(us float64) int) bool {
	top, n := d.y, 0
	for k, m := range c.measured {
		l := m.latency
		if l == nil {
			continue
		}
		y := top + n*laneHeight + laneHeight/2
		n++
		fmt.Fprintf(&d.b, `<g class="%s"><title>%s</title>`+"\n", methods[k].class,
			html.EscapeString(fmt.Sprintf("%s, %s: 50 %% %.1f µs, 90 %% %.1f µs, 99 %% %.1f µs, 99.9 %% %.1f µs, all %.1f µs", c.name, m.name, l.P50, l.P90, l.P99, l.P999, l.Max)))
		d.line("tail", at(l.P50), y, at(l.Max), y)
		d.line("body", at(l.P50), y, at(l.P90), y)
		fmt.Fprintf(&d.b, `<circle cx="%d" cy="%d" r="4.5"/>`+"\n", at(l.P50), y)
		for _, v := range []float64{l.P99, l.P999} {
			fmt.Fprintf(&d.b, `<circle class="hollow" cx="%d" cy="%d" r="3"/>`+"\n", at(v), y)
		}
		d.line("range", at(l.Max), y-4, at(l.Max), y+4)
		d.b.WriteString("</g>\n")
	}
	if n == 0 {
		return false
	}
	d.text("", margin, top+n*laneHeight/2+4, svg.Cut(c.name, nameLength))
	d.y = top + n*laneHeight + rowGap
	return true
}

// latencySentence describes the percentiles of a case.
func (c *result) latencySentence() string {
	var parts []string
	for _, m := range c.measured {
		if l := m.latency; l != nil {
			parts = append(parts, fmt.Sprintf("%s %.1f, %.1f, %.1f, %.1f and %.1f µs", m.name, l.P50, l.P90, l.P99, l.P999, l.Max))
		}
	}
	return c.name + ": 50, 90, 99, 99.9 and 100 % take at most: " + strings.Join(parts, "; ") + "."
}
