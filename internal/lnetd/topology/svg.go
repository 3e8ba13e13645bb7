package topology

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/svg"
	"github.com/lnetd/lnetd/lnet"
)

// class is the class of the picture, which its style sheet names.
const class = "topology"

// Sizes of the picture in pixels.
const (
	boxHeight = 42
	boxGap    = 12
	margin    = 16
	heading   = 26 // above a column
	columnGap = 64
	textLeft  = 32 // from the left edge of a box to its text
)

// columns are the widths of the columns: NIs, nets, peers, remote nets.
var columns = [...]int{230, 120, 290, 170}

const (
	columnNIs = iota
	columnNets
	columnPeers
	columnRemote
)

var columnTitles = [...]string{"This node", "Nets", "Peers", "Remote nets"}

// place is a box in the picture.
type place struct {
	column, row int
	x, y, width int
	state       State
	class       string // further classes
	title, text string
	tip         string // what is shown at length on demand
}

func (p *place) left() (x, y int)  { return p.x, p.y + boxHeight/2 }
func (p *place) right() (x, y int) { return p.x + p.width, p.y + boxHeight/2 }

// edge is a line from the right side of a box to the left side of another one.
type edge struct {
	from, to *place
	state    State
}

// drawing collects what the SVG shows.
type drawing struct {
	places []*place
	edges  []edge
	rows   [len(columns)]int
}

func (d *drawing) place(column int, s State, class, title, text, tip string) *place {
	p := &place{column: column, row: d.rows[column], width: columns[column], state: s, class: class, title: title, text: text, tip: tip}
	d.rows[column]++
	d.places = append(d.places, p)
	return p
}

func (d *drawing) link(from, to *place, s State) {
	if from != nil && to != nil {
		d.edges = append(d.edges, edge{from, to, s})
	}
}

// WriteSVG writes the picture as an SVG element with the class "topology", which uses the classes of Style. It has a
// title and a description for screen readers. It returns the error of w.
func (p *Picture) WriteSVG(w io.Writer) error { return p.writeSVG(w, "") }

// WriteSVGFile is like WriteSVG and includes Style, for a separate file.
func (p *Picture) WriteSVGFile(w io.Writer) error {
	return p.writeSVG(w, Style)
}

func (p *Picture) writeSVG(w io.Writer, style string) error {
	d := p.draw()
	width, height := d.arrange()
	var b strings.Builder
	svg.Begin(&b, class, width, height, "LNet of "+p.title(), p.Summary(), style)
	for k := range d.edges {
		d.edges[k].write(&b)
	}
	x := margin
	for k, title := range columnTitles {
		if d.rows[k] > 0 {
			fmt.Fprintf(&b, `<text class="heading" x="%d" y="%d">%s</text>`+"\n", x, margin+heading/2, title)
			x += columns[k] + columnGap
		}
	}
	for _, one := range d.places {
		one.write(&b)
	}
	svg.End(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary describes the picture in sentences.
func (p *Picture) Summary() string {
	nis := p.AllNIs()
	peers := p.AllPeers()
	s := fmt.Sprintf("%d of %s up.", nis.Up, plural(nis.All, "NI"))
	if peers.All == 0 {
		s += " No peers are known."
	} else {
		s += fmt.Sprintf(" %s: %s.", plural(peers.All, "peer"), peers.text())
	}
	for k := range p.RemoteNets {
		s += fmt.Sprintf(" Remote net %s: %s.", p.RemoteNets[k].Net, p.RemoteNets[k].State)
	}
	return s
}

// draw places everything in rows, without positions.
func (p *Picture) draw() *drawing {
	d := &drawing{}
	nets := map[lnet.Net]*place{}
	for k := range p.Nets {
		n := &p.Nets[k]
		nets[n.Net] = d.place(columnNets, n.State, "net", n.Net.String(), string(n.State), "")
		for i := range n.NIs {
			ni := &n.NIs[i]
			d.link(d.place(columnNIs, ni.State, "ni", ni.Name, niText(ni), ni.Detail), nets[n.Net], ni.State)
		}
	}
	if p.OtherNIs.All > 0 {
		d.place(columnNIs, OK, "others", "and "+plural(p.OtherNIs.All, "other"), p.OtherNIs.text(), "")
	}
	for k := range p.RemoteNets {
		r := &p.RemoteNets[k]
		nets[r.Net] = d.place(columnRemote, r.State, "net", r.Net.String(), routesText(r), "")
	}
	if p.OtherRemoteNets > 0 {
		d.place(columnRemote, OK, "others", "and "+plural(p.OtherRemoteNets, "other"), "", "")
	}
	rails := map[lnet.NID]*place{}
	for k := range p.Peers {
		one := &p.Peers[k]
		at := d.place(columnPeers, one.State, "peer", one.Primary.String(), peerText(one), one.tip())
		for net, s := range one.nets() {
			if from := nets[net]; from != nil && from.column == columnNets {
				d.link(from, at, s)
			}
		}
		for i := range one.Rails {
			rails[one.Rails[i].NID] = at
		}
	}
	if p.OtherPeers.All > 0 {
		d.place(columnPeers, OK, "others", "and "+plural(p.OtherPeers.All, "other"), p.OtherPeers.text(), "")
	}
	if len(p.Peers) == 0 && p.OtherPeers.All == 0 {
		d.place(columnPeers, OK, "others", "no peers yet", "", "")
	}
	for k := range p.RemoteNets {
		for _, r := range p.RemoteNets[k].Routes {
			d.link(rails[r.Gateway], nets[p.RemoteNets[k].Net], r.State)
		}
	}
	return d
}

// arrange sets the positions: each column stands in the middle of the height of the longest one. It returns the size
// of the picture.
func (d *drawing) arrange() (width, height int) {
	most := 1
	for _, n := range d.rows {
		most = max(most, n)
	}
	tall := func(n int) int { return n*(boxHeight+boxGap) - boxGap }
	x := margin
	var left [len(columns)]int
	for k := range columns {
		if d.rows[k] > 0 {
			left[k] = x
			x += columns[k] + columnGap
		}
	}
	for _, p := range d.places {
		p.x = left[p.column]
		p.y = margin + heading + (tall(most)-tall(d.rows[p.column]))/2 + p.row*(boxHeight+boxGap)
	}
	return x - columnGap + margin, 2*margin + heading + tall(most)
}

func (e *edge) write(b *strings.Builder) {
	x1, y1 := e.from.right()
	x2, y2 := e.to.left()
	bend := (x2 - x1) / 2
	fmt.Fprintf(b, `<path class="edge %s" d="M%d %dC%d %d %d %d %d %d"/>`+"\n", e.state, x1, y1, x1+bend, y1, x2-bend, y2, x2, y2)
}

// marks are shapes around (16, 21) in a box: a check mark, an hourglass, a triangle with "!" and a cross. They differ
// without colours.
var marks = map[State]string{
	OK:       `<path class="mark" d="M10 21l4 5 8-10"/>`,
	Waiting:  `<path class="mark" d="M10 14h12l-12 14h12z"/>`,
	Degraded: `<path class="mark" d="M16 13l8 15h-16zM16 18v5M16 25v1"/>`,
	Down:     `<path class="mark" d="M10 15l12 12M22 15l-12 12"/>`,
}

func (p *place) write(b *strings.Builder) {
	radius := 6
	if strings.Contains(p.class, "net") {
		radius = boxHeight / 2
	}
	fmt.Fprintf(b, `<g class="box %s %s" transform="translate(%d %d)">`, p.class, p.state, p.x, p.y)
	room := int(float64(p.width-textLeft-8) / svg.CharWidth)
	if tip := strings.TrimSpace(p.title + "\n" + p.tip); p.tip != "" || len(p.title) > room {
		fmt.Fprintf(b, "<title>%s</title>", html.EscapeString(tip))
	}
	fmt.Fprintf(b, `<rect width="%d" height="%d" rx="%d"/>`, p.width, boxHeight, radius)
	left := textLeft
	if strings.Contains(p.class, "others") {
		left = boxGap
	} else {
		b.WriteString(marks[p.state])
	}
	y := 18
	if p.text == "" {
		y = boxHeight/2 + 5
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`, left, y, html.EscapeString(svg.Cut(p.title, room)))
	if p.text != "" {
		fmt.Fprintf(b, `<text class="detail" x="%d" y="34">%s</text>`, left, html.EscapeString(svg.Cut(p.text, room)))
	}
	b.WriteString("</g>\n")
}

func niText(n *NI) string {
	switch {
	case n.State != OK:
		return stated(n.State, n.Detail)
	case n.Interface != "":
		return n.Interface + ", ok"
	}
	return string(OK)
}

func peerText(p *Peer) string {
	s := p.describe()
	if p.State == OK && len(p.Rails)+p.OtherRails > 1 {
		s = "ok, " + plural(len(p.Rails)+p.OtherRails, "NID")
	}
	if p.Gateway {
		s = "gateway, " + s
	}
	return s
}

// tip lists the rails of a peer.
func (p *Peer) tip() string {
	var lines []string
	for k := range p.Rails {
		lines = append(lines, p.Rails[k].NID.String()+": "+stated(p.Rails[k].State, p.Rails[k].Detail))
	}
	if p.OtherRails > 0 {
		lines = append(lines, "and "+plural(p.OtherRails, "other NID"))
	}
	return strings.Join(lines, "\n")
}
