package statuspage

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Size of a sparkline in pixels.
const (
	sparkWidth  = 120
	sparkHeight = 28
)

// trend is a rate now, and its course over the last minutes.
type trend struct {
	// Now is the last rate as text, or "" if it is not known.
	Now string
	// Line is an SVG element with the course. It is empty if there are fewer than two rates.
	Line template.HTML
}

// trendOf returns the trend of rates. The function show returns a rate as text, and the name says of what it is.
func trendOf(all []float64, name string, show func(float64) string) trend {
	var t trend
	if n := len(all); n > 0 && !math.IsNaN(all[n-1]) {
		t.Now = show(all[n-1])
	}
	if len(all) < 2 {
		return t
	}
	most := 0.0
	for _, v := range all {
		if !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	text := fmt.Sprintf("%s in the last %d seconds: highest %s", name, len(all)*int(samplePause.Seconds()), show(most))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s"><title>%s</title>`,
		sparkWidth, sparkHeight, sparkWidth, sparkHeight, html.EscapeString(text), html.EscapeString(text))
	for _, points := range lines(all, most) {
		fmt.Fprintf(&b, `<polyline points="%s"/>`, points)
	}
	b.WriteString("</svg>")
	t.Line = template.HTML(b.String()) // numbers and escaped text
	return t
}

// lines returns the points of one line for each sequence of rates without a gap. The newest rate is at the right edge.
func lines(all []float64, most float64) (list []string) {
	var points []string
	end := func() {
		if len(points) > 1 {
			list = append(list, strings.Join(points, " "))
		}
		points = nil
	}
	const step = float64(sparkWidth-2) / (samplesMost - 2)
	for k, v := range all {
		if math.IsNaN(v) {
			end()
			continue
		}
		x := sparkWidth - 1 - float64(len(all)-1-k)*step
		y := float64(sparkHeight - 2)
		if most > 0 {
			y -= v / most * (sparkHeight - 4)
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	end()
	return list
}

// perSecond returns a rate of messages as text.
func perSecond(v float64) string {
	if v > 0 && v < 10 {
		return fmt.Sprintf("%.1f/s", v)
	}
	return number(uint64(math.Round(v))) + "/s"
}

// bytesPerSecond returns a rate of bytes as text.
func bytesPerSecond(v float64) string { return size(v) + "/s" }

// size returns a number of bytes with a binary unit.
func size(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	k := 0
	for v >= 1024 && k < len(units)-1 {
		v /= 1024
		k++
	}
	if k == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[k])
	}
	return fmt.Sprintf("%.1f %s", v, units[k])
}

// number returns a number with a comma between groups of three digits.
func number(n uint64) string {
	s := fmt.Sprint(n)
	for k := len(s) - 3; k > 0; k -= 3 {
		s = s[:k] + "," + s[k:]
	}
	return s
}
