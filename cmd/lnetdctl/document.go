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

// mapping is a YAML mapping in display order.
type mapping []entry

// sequence is a YAML sequence. In lnetctl's documents all items are mappings.
type sequence []mapping

// scalars is a YAML sequence of scalars.
type scalars []scalar

// entry is a key and its value: a mapping, a sequence, scalars, a scalar, or nil.
type entry struct {
	key   string
	value any
}

// scalar is a value as printed, including quotes.
type scalar string

func number[T ~int | ~int64 | ~uint64](n T) scalar {
	if n > math.MaxInt64 {
		return scalar(strconv.FormatUint(uint64(n), 10))
	}
	return scalar(strconv.FormatInt(int64(n), 10))
}

func boolean(b bool) scalar { return scalar(strconv.FormatBool(b)) }

// quoted returns text in double quotes, the form of CPT lists and of texts in lnetctl's older error
// documents.
func quoted(s string) scalar { return scalar(doubleQuoted(s)) }

// tagged returns text in double quotes after the non-specific tag, the form of texts in lnetctl's
// newer error documents.
func tagged(s string) scalar { return scalar("! " + doubleQuoted(s)) }

// text returns a plain scalar, or a tagged and quoted one if the plain one would parse as something
// else.
func text(s string) scalar {
	switch {
	case plainSafe(s):
		return scalar(s)
	case printable(s):
		return scalar("! '" + strings.ReplaceAll(s, "'", "''") + "'")
	}
	return tagged(s)
}

// layout is one of lnetctl's layouts of documents.
type layout struct {
	// indent is the width of one level.
	indent int
	// dash is the width of a sequence item's mark: the dash and the spaces after it.
	dash int
	// nested reports whether a sequence is one level deeper than its key.
	nested bool
}

var (
	// wide is the layout of what the kernel reports through its newer interface: nets, routes,
	// peers, and errors about them.
	wide = layout{indent: 6, dash: 6}
	// narrow is the layout of ping and discover results.
	narrow = layout{indent: 2, dash: 2}
	// classic is the layout of everything else.
	classic = layout{indent: 4, dash: 2, nested: true}
)

// write prints the document.
func (l layout) write(w io.Writer, m mapping) error {
	var b bytes.Buffer
	l.mapping(&b, m, 0, false)
	_, err := w.Write(b.Bytes())
	return err
}

// mapping prints m with its keys at column col. begun reports whether the line of the first key has
// been started.
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

// plainSafe reports whether s parses as itself without quotes in a block mapping. Words that YAML
// reads as numbers or booleans count as safe, because lnetctl never quotes them.
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
