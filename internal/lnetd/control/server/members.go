package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// members inspects the bytes that a JSON decoder reads. It detects two mistakes that the decoder accepts
// without an error: duplicate members, of which the decoder uses the last one, and null, which the decoder
// ignores. The result, the field rejected, is valid only if the decoder has returned no error.
type members struct {
	open     []object // the objects and lists around the next byte, outermost first
	quoted   bool     // the next byte is inside a string
	escaped  bool     // the next byte follows a backslash
	name     []byte   // the bytes of a member's name so far
	rejected error    // the first error
}

// object is an object or a list that has not ended yet.
type object struct {
	list  bool     // it is a list
	named bool     // the next string is the name of a member
	names []string // the names of members so far
}

const (
	// nameMax is the maximum length in bytes of names that are checked for duplicates. The names of all known
	// members are shorter.
	nameMax = 256
	// namesMax is the maximum number of names in an object that are checked for duplicates. No valid request
	// has more.
	namesMax = 256
)

var errNull = errors.New("null is not a value: remove the member")

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

// inQuotes processes a byte of a string, which may be its closing quote.
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

// outside processes a byte outside of strings.
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
	case 'n': // only null contains an n outside of strings
		m.reject(errNull)
	}
}

// innermost returns the innermost object or list around the next byte. Outside of all objects and lists, it
// returns an empty list.
func (m *members) innermost() *object {
	if len(m.open) == 0 {
		return &object{list: true}
	}
	return &m.open[len(m.open)-1]
}

// add adds m.name to the names of an object, and rejects a name that the object already has. Like the
// decoder, it ignores case.
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
