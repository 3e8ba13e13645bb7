package scale

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/svg"
)

// Sizes of the picture in pixels.
const (
	plotLeft, plotTop    = 60, 40
	plotWidth, plotHigh  = 420, 300
	pictureWidth, legend = 760, plotLeft + plotWidth + 16
	pictureHeight        = plotTop + plotHigh + 50
)

const class = "scale"

var style = svg.Style(class) + `.scale .axis { stroke: #8c959f; fill: none; }
.scale .linear { stroke: #8c959f; stroke-dasharray: 4 4; }
.scale .curve { stroke-width: 2; fill: none; }
`

// curve is a total cost by number of clients.
type curve struct {
	name, color string
	total       func(s *Simulation) float64
}

// event returns the event with the given name, or the zero Event.
func (s *Simulation) event(name string) (e Event) {
	for _, one := range s.Events {
		if one.Name == name {
			return one
		}
	}
	return e
}

// Draw returns the picture, in SVG, of the total costs of simulations, which are ordered by their number of clients.
// Both axes are logarithmic, and costs are relative to those of the first simulation.
func Draw(all []*Simulation) string {
	curves := []curve{
		{"memory of clients", "#1f77b4", func(s *Simulation) float64 { return s.NodeBytes * float64(s.Nodes) }},
		{"messages of a cold start", "#d62728", func(s *Simulation) float64 { return s.event(ColdStart).Messages * float64(s.Nodes) }},
		{"processor time of a cold start", "#8c564b", func(s *Simulation) float64 { return s.event(ColdStart).CPU * float64(s.Nodes) }},
		{"messages after a NID has changed", "#9467bd", func(s *Simulation) float64 { return s.event(ChangedNID).Messages * float64(s.Nodes) }},
		{"time until all know the changed NID", "#2ca02c", func(s *Simulation) float64 { return s.event(ChangedNID).Quiet }},
		{"messages after a gateway has died", "#ff7f0e", func(s *Simulation) float64 { return s.event(DeadGateway).Messages * float64(s.Nodes) }},
	}
	first, last := all[0], all[len(all)-1]
	most := math.Log(float64(last.Nodes) / float64(first.Nodes))
	at := func(nodes int, cost float64) (x, y float64) {
		share := func(v float64) float64 { return min(max(math.Log(v)/most, 0), 1.05) }
		return plotLeft + plotWidth*share(float64(nodes)/float64(first.Nodes)), plotTop + plotHigh*(1-share(cost))
	}
	var b strings.Builder
	svg.Begin(&b, class, pictureWidth, pictureHeight, "Costs by number of nodes",
		fmt.Sprintf("Costs with %d to %d clients, relative to %d clients, on logarithmic axes. A dashed line shows linear growth.", first.Nodes, last.Nodes, first.Nodes), style)
	fmt.Fprintf(&b, `<text class="heading" x="%d" y="24">Cost of all nodes, relative to %d clients</text>`+"\n", plotLeft, first.Nodes)
	fmt.Fprintf(&b, `<path class="axis" d="M%d %d V%d H%d"/>`+"\n", plotLeft, plotTop, plotTop+plotHigh, plotLeft+plotWidth)
	fmt.Fprintf(&b, `<line class="linear" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", plotLeft, plotTop+plotHigh, plotLeft+plotWidth, plotTop)
	for _, s := range all {
		factor := float64(s.Nodes) / float64(first.Nodes)
		x, y := at(s.Nodes, factor)
		fmt.Fprintf(&b, `<text class="detail" text-anchor="middle" x="%.1f" y="%d">%d</text>`+"\n", x, plotTop+plotHigh+18, s.Nodes)
		fmt.Fprintf(&b, `<text class="detail" text-anchor="end" x="%d" y="%.1f">%.0f</text>`+"\n", plotLeft-8, y+4, factor)
	}
	fmt.Fprintf(&b, `<text class="detail" text-anchor="middle" x="%d" y="%d">clients</text>`+"\n", plotLeft+plotWidth/2, plotTop+plotHigh+38)
	for k, c := range curves {
		var points []string
		for _, s := range all {
			x, y := at(s.Nodes, c.total(s)/c.total(first))
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y-2*float64(k))) // curves that coincide stay visible
		}
		fmt.Fprintf(&b, `<polyline class="curve" stroke="%s" points="%s"/>`+"\n", c.color, strings.Join(points, " "))
		y := plotTop + 20 + 20*k
		fmt.Fprintf(&b, `<line class="curve" stroke="%s" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="detail" x="%d" y="%d">%s</text>`+"\n",
			c.color, legend, y-4, legend+16, y-4, legend+22, y, html.EscapeString(c.name))
	}
	y := plotTop + 20 + 20*len(curves)
	fmt.Fprintf(&b, `<line class="linear" x1="%d" y1="%d" x2="%d" y2="%d"/><text class="detail" x="%d" y="%d">linear growth</text>`+"\n",
		legend, y-4, legend+16, y-4, legend+22, y)
	svg.End(&b)
	return b.String()
}
