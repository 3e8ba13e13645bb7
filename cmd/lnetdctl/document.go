package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mapping is a YAML mapping with its entries in the order in which they are printed.
type mapping []entry

// sequence is a YAML sequence of mappings. lnetctl's documents have no other sequences.
type sequence []mapping

// scalars is a YAML sequence of scalars.
type scalars []scalar

// entry is a key with its value. The value is a mapping, a sequence, scalars, a scalar, or nil.
type entry struct {
	key   string
	value any
}

// scalar is the text of a value exactly as it is printed, including quotes.
type scalar string

func number[T ~int | ~int64 | ~uint64](n T) scalar {
	if n > math.MaxInt64 {
		return scalar(strconv.FormatUint(uint64(n), 10))
	}
	return scalar(strconv.FormatInt(int64(n), 10))
}

func boolean(b bool) scalar { return scalar(strconv.FormatBool(b)) }

// quoted returns a text as a scalar in double quotes. lnetctl uses this form for lists of CPTs, and for texts in
// its older error documents.
func quoted(s string) scalar { return scalar(doubleQuoted(s)) }

// tagged returns a text as a scalar in double quotes after the YAML tag "!". lnetctl uses this form for texts in
// its newer error documents.
func tagged(s string) scalar { return scalar("! " + doubleQuoted(s)) }

// text returns a text as a scalar. It is plain if YAML would read it as the same text, and otherwise in quotes
// after the tag "!".
func text(s string) scalar {
	switch {
	case plainSafe(s):
		return scalar(s)
	case printable(s):
		return scalar("! '" + strings.ReplaceAll(s, "'", "''") + "'")
	}
	return tagged(s)
}

// layout is one of the ways in which lnetctl indents documents.
type layout struct {
	// indent is the number of columns by which each level of mappings is indented.
	indent int
	// dash is the number of columns that the mark of a sequence item takes: the dash and the spaces
	// after it.
	dash int
	// nested reports whether a sequence is one level deeper than its key.
	nested bool
}

var (
	// wide is the layout of nets, routes, peers, and errors about them. In lnetctl these come from the
	// kernel's newer interface.
	wide = layout{indent: 6, dash: 6}
	// narrow is the layout of the results of pings and discoveries.
	narrow = layout{indent: 2, dash: 2}
	// classic is the layout of everything else.
	classic = layout{indent: 4, dash: 2, nested: true}
)

// write prints the document m in this layout.
func (l layout) write(w io.Writer, m mapping) error {
	var b bytes.Buffer
	l.mapping(&b, m, 0, false)
	_, err := w.Write(b.Bytes())
	return err
}

// mapping prints m with its keys at the column col. If begun is set, the first key continues a line that has
// been begun, and so is not indented.
func (l layout) mapping(b *bytes.Buffer, m mapping, col int, begun bool) {
	for i, e := range m {
		if i > 0 || !begun {
			blanks(b, col)
		}
		b.WriteString(e.key)
		b.WriteByte(':')
		switch v := e.value.(type) {
		case scalar:
			b.WriteByte(' ')
			b.WriteString(string(v))
			b.WriteByte('\n')
		case mapping:
			b.WriteByte('\n')
			l.mapping(b, v, col+l.indent, false)
		case sequence:
			b.WriteByte('\n')
			l.sequence(b, v, col)
		case scalars:
			b.WriteByte('\n')
			l.scalars(b, v, col)
		default:
			b.WriteByte('\n')
		}
	}
}

func (l layout) sequence(b *bytes.Buffer, s sequence, col int) {
	if l.nested {
		col += l.indent
	}
	for _, item := range s {
		blanks(b, col)
		b.WriteByte('-')
		blanks(b, l.dash-1)
		l.mapping(b, item, col+l.dash, true)
	}
}

func (l layout) scalars(b *bytes.Buffer, s scalars, col int) {
	if l.nested {
		col += l.indent
	}
	for _, item := range s {
		blanks(b, col)
		b.WriteByte('-')
		blanks(b, l.dash-1)
		b.WriteString(string(item))
		b.WriteByte('\n')
	}
}

func blanks(b *bytes.Buffer, n int) {
	const some = "                                "
	for ; n > len(some); n -= len(some) {
		b.WriteString(some)
	}
	b.WriteString(some[:n])
}

// plainSafe reports whether s can be a value of a mapping without quotes, because YAML reads it as the same
// text. It also returns true for words that YAML reads as numbers or booleans, because lnetctl never quotes
// these.
func plainSafe(s string) bool {
	if s == "" || !printable(s) || strings.TrimSpace(s) != s {
		return false
	}
	if strings.Contains(s, ": ") || strings.Contains(s, " #") || strings.HasSuffix(s, ":") {
		return false
	}
	if strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		return false
	}
	switch s[0] {
	case ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	case '-', '?', ':':
		return len(s) > 1 && s[1] != ' '
	}
	return true
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func doubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
