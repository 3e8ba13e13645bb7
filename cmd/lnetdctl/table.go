package main

import (
	"strings"
	"unicode/utf8"
)

// table is a list of lines of cells, for output in columns: a mark, a name, numbers, and a remark.
type table [][]string

// write writes the table to b, with the text indent before each line. Columns of numbers are aligned to the
// right. Cells with characters that could change the terminal are quoted, because peers, programs and the host choose
// names.
func (t table) write(b *strings.Builder, indent string) {
	var widths []int
	lines := make(table, len(t))
	for n, line := range t {
		for k, c := range line {
			c = printableText(c)
			lines[n] = append(lines[n], c)
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(c))
		}
	}
	for _, line := range lines {
		text := indent
		for k, c := range line {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(c))
			switch {
			case k == 0:
				text += c + pad
			case k == 1:
				text += " " + c + pad
			case k < len(line)-1:
				text += "  " + pad + c
			default:
				text += "  " + c
			}
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}
