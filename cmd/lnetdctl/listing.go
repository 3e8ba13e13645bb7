package main

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// listing prints a document that consists of one list, item by item, so that the whole list need not be in
// memory.
type listing struct {
	layout layout
	key    string
	// json is set if the list is printed as JSON.
	json bool

	out   io.Writer
	begun bool         // an item has been printed
	b     bytes.Buffer // output that has not been written yet
	one   bytes.Buffer // the JSON text of an item before it is indented
}

// listingPage is the number of bytes of buffered output from which it is written.
const listingPage = 64 << 10

// showList prints a list that may be long. With --json it prints the items as JSON, and otherwise the result of
// document for each item. It prints nothing for an empty list, except with --json.
func showList[T any](
	p *program, form errorForm, l listing, items iter.Seq2[T, error], document func(item *T) mapping,
) error {
	l.out = p.stdout
	for item, err := range items {
		if err != nil {
			_ = l.flush()
			return p.refused(form, err)
		}
		if l.json {
			err = l.value(item)
		} else {
			err = l.item(document(&item))
		}
		if err != nil {
			return err
		}
	}
	return l.end()
}

func (l *listing) item(m mapping) error {
	if !l.begun {
		l.begun = true
		l.layout.mapping(&l.b, mapping{{l.key, sequence{}}}, 0, false)
	}
	l.layout.sequence(&l.b, sequence{m}, 0)
	return l.turn()
}

// value prints an item of a list in the same form as printJSON prints it within a list.
func (l *listing) value(v any) error {
	l.one.Reset()
	if err := json.NewEncoder(&l.one).Encode(v); err != nil {
		return err
	}
	if l.begun {
		l.b.WriteString(",\n    ")
	} else {
		l.begun = true
		l.b.WriteString("{\n  \"" + l.key + "\": [\n    ")
	}
	indent(&l.b, bytes.TrimSuffix(l.one.Bytes(), []byte("\n")), 2)
	return l.turn()
}

// indent appends compact JSON to b, indented by two spaces for each level beginning at the given one. It is used
// instead of json.Indent, which would take most of the time for a long list because it validates each byte.
func indent(b *bytes.Buffer, compact []byte, level int) {
	out := b.AvailableBuffer()
	newline := func() {
		out = append(out, '\n')
		for range level {
			out = append(out, ' ', ' ')
		}
	}
	for k := 0; k < len(compact); k++ {
		c := compact[k]
		switch c {
		case '"':
			n := stringEnd(compact[k+1:])
			out = append(out, compact[k:k+1+n]...)
			k += n
		case '{', '[':
			out = append(out, c)
			if next := compact[k+1]; next == '}' || next == ']' {
				out = append(out, next)
				k++
				continue
			}
			level++
			newline()
		case '}', ']':
			level--
			newline()
			out = append(out, c)
		case ',':
			out = append(out, c)
			newline()
		case ':':
			out = append(out, c, ' ')
		default:
			out = append(out, c)
		}
	}
	b.Write(out)
}

// stringEnd returns the number of bytes up to the end of a JSON string, including the closing quote. The slice s
// begins after the opening quote.
func stringEnd(s []byte) int {
	for k := 0; ; k++ {
		switch s[k] {
		case '"':
			return k + 1
		case '\\':
			k++
		}
	}
}

func (l *listing) end() error {
	switch {
	case l.json && l.begun:
		l.b.WriteString("\n  ]\n}\n")
	case l.json:
		l.b.WriteString("{\n  \"" + l.key + "\": []\n}\n")
	}
	return l.flush()
}

// turn writes the buffered output if it has at least listingPage bytes.
func (l *listing) turn() error {
	if l.b.Len() < listingPage {
		return nil
	}
	return l.flush()
}

func (l *listing) flush() error {
	_, err := l.out.Write(l.b.Bytes())
	l.b.Reset()
	return err
}
