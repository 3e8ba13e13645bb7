package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// members looks, while a JSON decoder reads a request, for what the decoder would drop without an
// error: a member that is given twice, of which it uses the last, and null, which it ignores. It
// means something only if the decoder finds no error.
type members struct {
	open     []object // objects and lists around the next byte
	quoted   bool     // the next byte is within quotes
	escaped  bool     // it follows a backslash
	name     []byte   // the bytes of a member's name so far
	rejected error    // the first fault
}

// object is an object or a list.
type object struct {
	list  bool
	named bool     // the next string is a member's name
	names []string // so far
}

const (
	// nameMax bounds the bytes of a name that is compared with others: no longer one is known.
	nameMax = 256
	// namesMax bounds the names of one object that are compared: no request has more.
	namesMax = 256
)

var errNull = errors.New("null is no value: leave the member out")

// Write implements io.Writer. It returns no error.
func (m *members) Write(b []byte) (int, error) {
	for _, c := range b {
		if m.quoted {
			m.inQuotes(c)
		} else {
			m.outside(c)
		}
	}
	return len(b), nil
}

// inQuotes reads a byte of a string, or the quote that ends it.
func (m *members) inQuotes(c byte) {
	ends := c == '"' && !m.escaped
	m.escaped = c == '\\' && !m.escaped
	switch o := m.innermost(); {
	case ends:
		m.quoted = false
		if o.named {
			m.add(o)
		}
	case o.named && len(m.name) <= nameMax:
		m.name = append(m.name, c)
	}
}

// outside reads a byte that is not part of a string.
func (m *members) outside(c byte) {
	switch c {
	case '"':
		m.quoted, m.name = true, m.name[:0]
	case '{', '[':
		m.open = append(m.open, object{list: c == '[', named: c == '{'})
	case '}', ']':
		m.open = m.open[:max(len(m.open)-1, 0)]
	case ',':
		o := m.innermost()
		o.named = !o.list
	case ':':
		m.innermost().named = false
	case 'n': // neither true nor false nor a number has one
		m.reject(errNull)
	}
}

// innermost returns what is around the next byte.
func (m *members) innermost() *object {
	if len(m.open) == 0 {
		return &object{list: true}
	}
	return &m.open[len(m.open)-1]
}

// add adds the name that was read to an object. As the decoder does, it takes names that differ
// in case for the same.
func (m *members) add(o *object) {
	var name string
	if len(m.name) > nameMax || json.Unmarshal([]byte(`"`+string(m.name)+`"`), &name) != nil {
		return
	}
	if slices.ContainsFunc(o.names, func(other string) bool { return strings.EqualFold(name, other) }) {
		m.reject(fmt.Errorf("%s is given twice", strconv.Quote(name)))
	}
	if len(o.names) < namesMax {
		o.names = append(o.names, name)
	}
}

func (m *members) reject(err error) {
	if m.rejected == nil {
		m.rejected = err
	}
}
