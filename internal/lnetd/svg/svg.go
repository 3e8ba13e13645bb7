// Package svg has what the pictures of this project have in common: the frame with a title and a description for
// screen readers, the styles of texts for light and dark displays, and the shortening of texts. It does no I/O and
// starts no goroutines.
package svg

import (
	"fmt"
	"html"
	"strings"
)

// Begin begins a picture of a size in pixels, with a background and the class class. title and text describe the
// picture to screen readers. If style is not empty, the picture contains it as its style sheet. The caller ends the
// picture with End.
func Begin(b *strings.Builder, class string, width, height int, title, text, style string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" class="%s" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="%s-title %s-text">`+"\n",
		class, width, height, width, height, class, class)
	fmt.Fprintf(b, `<title id="%s-title">%s</title><desc id="%s-text">%s</desc>`+"\n", class, html.EscapeString(title), class, html.EscapeString(text))
	if style != "" {
		b.WriteString("<style>\n" + style + "</style>\n")
	}
	fmt.Fprintf(b, `<rect class="ground" width="%d" height="%d"/>`+"\n", width, height)
}

// End ends a picture.
func End(b *strings.Builder) { b.WriteString("</svg>\n") }

// Style returns the style sheet of the parts that all pictures of a class have, for light and dark displays: the
// background ("ground"), texts, headings ("heading") and small texts ("detail"). A page may override the background.
func Style(class string) string { return strings.ReplaceAll(style, "CLASS", class) }

const style = `.CLASS { max-width: 100%; height: auto; font: 12px ui-monospace, "DejaVu Sans Mono", Consolas, monospace; }
.CLASS .ground { fill: #ffffff; }
.CLASS text { fill: #1f2328; }
.CLASS .heading { font: 600 13px system-ui, sans-serif; fill: #59636e; }
.CLASS .detail { fill: #59636e; font-size: 11px; }
@media (prefers-color-scheme: dark) {
.CLASS .ground { fill: #0d1117; }
.CLASS text { fill: #f0f6fc; }
.CLASS .heading, .CLASS .detail { fill: #9198a1; }
}
`

// CharWidth is the width in pixels of a character of the text of Style.
const CharWidth = 7.3

// Cut returns s shortened to n characters. The middle is left out, because names often differ only at their ends.
func Cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	tail := n / 3
	return string(r[:n-tail-1]) + "…" + string(r[len(r)-tail:])
}
