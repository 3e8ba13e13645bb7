package picture

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/svg"
)

// Sizes of the pictures in pixels.
const (
	width     = 1000
	margin    = 16
	plotLeft  = 470 // left edge of bars and points
	plotWidth = 340
	barHeight = 11
	rowGap    = 14
	headSize  = 34 // a heading with the space before it
	topHeight = 62 // title and legend
	// nameLength is the number of characters for which there is room before plotLeft.
	nameLength = 62
)

// class is the class of the pictures, which the style sheet names.
const class = "figures"

// style is the style sheet of the pictures, for light and dark displays.
var style = svg.Style(class) + `.figures text { paint-order: stroke; stroke: #ffffff; stroke-width: 3; }
.figures .title { font: 600 16px system-ui, sans-serif; }
.figures .ours { fill: #0969da; stroke: #0969da; }
.figures .floor { fill: #818b98; stroke: #818b98; }
.figures .other { fill: #c69026; stroke: #c69026; }
.figures .bar { stroke: none; }
.figures .range, .figures .tail { stroke-width: 1.5; }
.figures .body { stroke-width: 4; stroke-linecap: round; }
.figures .hollow { fill: #ffffff; stroke-width: 1.5; }
.figures .spread { stroke: #1f2328; stroke-width: 1; }
.figures .goal { stroke: #1a7f37; stroke-width: 2; stroke-dasharray: 4 2; }
.figures .goal.missed { stroke: #cf222e; }
.figures text.reached { fill: #1a7f37; }
.figures text.missed { fill: #cf222e; }
.figures .grid { stroke: #d1d9e0; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
.figures text { stroke: #0d1117; }
.figures .ours { fill: #4493f8; stroke: #4493f8; }
.figures .floor { fill: #7d8590; stroke: #7d8590; }
.figures .other { fill: #d29922; stroke: #d29922; }
.figures .hollow { fill: #0d1117; }
.figures .spread { stroke: #f0f6fc; }
.figures .goal { stroke: #3fb950; }
.figures .goal.missed { stroke: #f85149; }
.figures text.reached { fill: #3fb950; }
.figures text.missed { fill: #f85149; }
.figures .grid { stroke: #3d444d; }
}
`

// drawing is a picture that is drawn from the top to the bottom.
type drawing struct {
	b strings.Builder
	y int
}

// text writes a text at a position.
func (d *drawing) text(class string, x, y int, s string) {
	fmt.Fprintf(&d.b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, html.EscapeString(s))
}

// line writes a line. class has its look.
func (d *drawing) line(class string, x1, y1, x2, y2 int) {
	fmt.Fprintf(&d.b, `<path class="%s" d="M%d %dL%d %d"/>`+"\n", class, x1, y1, x2, y2)
}

// head writes the title and the legend, whose entries are the methods.
func (d *drawing) head(title string, methods []method) {
	d.text("title", margin, margin+12, title)
	x := margin
	for _, m := range methods {
		fmt.Fprintf(&d.b, `<rect class="bar %s" x="%d" y="%d" width="12" height="12"/>`+"\n", m.class, x, margin+26)
		d.text("detail", x+18, margin+36, m.name)
		x += 18 + int(svg.CharWidth*float64(len([]rune(m.name)))) + 24
	}
	d.y = topHeight
}

// write writes the picture with a title and a description for screen readers.
func (d *drawing) write(w io.Writer, title, description string) error {
	var b strings.Builder
	svg.Begin(&b, class, width, d.y+margin, title, description, style)
	b.WriteString(d.b.String())
	svg.End(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteFigures writes a picture of all figures as bars, with a panel for each unit. Each case has a bar for each
// method, a line for half of the rounds, and a mark at its goal. It returns the error of w.
func (r *Results) WriteFigures(w io.Writer) error {
	d := &drawing{}
	title := r.title + ": figures and goals"
	d.head(title, r.methods)
	var all []string
	for _, unit := range panels {
		all = append(all, d.panel(r, unit)...)
	}
	return d.write(w, title, strings.Join(all, " "))
}

// panel draws the cases with a unit. It returns a sentence for each.
func (d *drawing) panel(r *Results, unit string) (sentences []string) {
	for k := range r.cases {
		c := &r.cases[k]
		if c.unit != unit {
			continue
		}
		if sentences == nil {
			d.y += headSize
			d.text("heading", margin, d.y-12, units[unit].title)
		}
		d.row(c, r.methods)
		sentences = append(sentences, c.sentence())
	}
	return sentences
}

// row draws the bars of a case. The longest one has the width of the picture.
func (d *drawing) row(c *result, methods []method) {
	most := c.goal
	for _, m := range c.measured {
		most = max(most, m.figure.Q3)
	}
	at := func(v float64) int {
		if most == 0 {
			return plotLeft
		}
		return plotLeft + int(v/most*plotWidth)
	}
	height := barHeight * len(c.measured)
	d.text("", margin, d.y+height/2+4, svg.Cut(c.name, nameLength))
	for k, m := range c.measured {
		y, f := d.y+k*barHeight, m.figure
		fmt.Fprintf(&d.b, `<g><title>%s</title><rect class="bar %s" x="%d" y="%d" width="%d" height="%d"/>`+"\n",
			html.EscapeString(fmt.Sprintf("%s, %s: %s, half of the rounds %s to %s", c.name, m.name, show(c.unit, f.Median), show(c.unit, f.Q1), show(c.unit, f.Q3))),
			methods[k].class, plotLeft, y, max(1, at(f.Median)-plotLeft), barHeight-1)
		d.line("spread", at(f.Q1), y+barHeight/2, at(f.Q3), y+barHeight/2)
		d.b.WriteString("</g>\n")
	}
	if c.hasGoal {
		verdict := "reached"
		if len(c.missed) > 0 {
			verdict = "missed"
		}
		if c.goal != 0 {
			d.line("goal "+verdict, at(c.goal), d.y-3, at(c.goal), d.y+height+2)
		}
		d.text("detail "+verdict, plotLeft+plotWidth+85, d.y+height/2+4, "goal "+verdict)
	}
	for k, m := range c.measured { // over the mark at the goal
		d.text("detail", max(at(m.figure.Median), at(m.figure.Q3))+5, d.y+(k+1)*barHeight-2, show(c.unit, m.figure.Median))
	}
	d.y += height + rowGap
}

// sentence describes a case.
func (c *result) sentence() string {
	var parts []string
	for _, m := range c.measured {
		parts = append(parts, m.name+" "+show(c.unit, m.figure.Median))
	}
	s := c.name + ": " + strings.Join(parts, ", ")
	if c.goal != 0 {
		s += ", goal " + show(c.unit, c.goal)
	}
	if len(c.missed) > 0 {
		s += ", missed"
	}
	return s + "."
}
