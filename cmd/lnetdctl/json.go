package main

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// jsonObject prints a JSON object in the form of printJSON, but one member after the other, so that a long list
// need not be in memory.
type jsonObject struct {
	out   io.Writer
	begun bool         // a member has been printed
	b     bytes.Buffer // output that has not been written yet
	one   bytes.Buffer // the compact JSON text of a value
}

// members prints all members of v, a struct.
func (o *jsonObject) members(v any) error {
	text, err := o.compact(v)
	if err != nil {
		return err
	}
	if members := text[1 : len(text)-1]; len(members) > 0 {
		o.next()
		indent(&o.b, members, 1)
	}
	return nil
}

// jsonList prints a member with a list of items, and writes the output. An error of the sequence is returned as a
// *sequenceError, after the items before it have been printed. Without such items it prints nothing.
func jsonList[T any](o *jsonObject, name string, items iter.Seq2[T, error]) error {
	o.next()
	o.b.WriteString(`"` + name + `": [`)
	first := true
	for item, err := range items {
		if err != nil {
			if !first {
				_ = o.flush()
			}
			return &sequenceError{err}
		}
		text, err := o.compact(item)
		if err != nil {
			return err
		}
		if !first {
			o.b.WriteByte(',')
		}
		first = false
		o.b.WriteString("\n    ")
		indent(&o.b, text, 2)
		if o.b.Len() >= listingPage {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	if !first {
		o.b.WriteString("\n  ")
	}
	o.b.WriteByte(']')
	return o.flush()
}

// end completes the object and writes the output.
func (o *jsonObject) end() error {
	if o.begun {
		o.b.WriteString("\n}\n")
	} else {
		o.b.WriteString("{}\n")
	}
	return o.flush()
}

// next begins a member.
func (o *jsonObject) next() {
	if o.begun {
		o.b.WriteString(",\n  ")
	} else {
		o.b.WriteString("{\n  ")
	}
	o.begun = true
}

// compact returns the compact JSON text of v, which is valid until the next call.
func (o *jsonObject) compact(v any) ([]byte, error) {
	o.one.Reset()
	err := json.NewEncoder(&o.one).Encode(v)
	return bytes.TrimSuffix(o.one.Bytes(), []byte("\n")), err
}

func (o *jsonObject) flush() error {
	_, err := o.out.Write(o.b.Bytes())
	o.b.Reset()
	return err
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
