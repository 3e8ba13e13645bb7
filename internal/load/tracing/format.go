package tracing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Tracepoint is a tracepoint of the kernel: a place at which it reports an event.
type Tracepoint struct {
	Name string
	// ID is the number of the tracepoint, for perf_event_open.
	ID uint64

	fields map[string]field
}

// field is an integer in the data of an event.
type field struct{ offset, size int }

// parseFormat parses the file "format" of a tracepoint. Fields that are not integers are ignored.
func parseFormat(name string, text []byte) (*Tracepoint, error) {
	p := &Tracepoint{Name: name, fields: map[string]field{}}
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if id, ok := strings.CutPrefix(s, "ID: "); ok {
			n, err := strconv.ParseUint(id, 10, 16) // events contain it in 16 bits
			if err != nil {
				return nil, fmt.Errorf("format of tracepoint %s: %w", name, err)
			}
			p.ID = n
		}
		if rest, ok := strings.CutPrefix(s, "field:"); ok {
			if err := p.parseField(rest); err != nil {
				return nil, fmt.Errorf("format of tracepoint %s: %q: %w", name, s, err)
			}
		}
	}
	if p.ID == 0 {
		return nil, fmt.Errorf("format of tracepoint %s: it has no ID", name)
	}
	return p, nil
}

// parseField parses a line such as "pid_t pid;	offset:24;	size:4;	signed:1;".
func (p *Tracepoint) parseField(line string) error {
	parts := strings.Split(line, ";")
	words := strings.Fields(parts[0])
	if len(words) == 0 {
		return fmt.Errorf("the field has no name")
	}
	var f field
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		into := map[string]*int{"offset": &f.offset, "size": &f.size}[key]
		if into == nil {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return err
		}
		*into = int(n)
	}
	if f.size == 2 || f.size == 4 || f.size == 8 {
		p.fields[words[len(words)-1]] = f
	}
	return nil
}

// require returns an error unless the tracepoint has all named fields.
func (p *Tracepoint) require(names ...string) error {
	for _, name := range names {
		if _, ok := p.fields[name]; !ok {
			return fmt.Errorf("tracepoint %s of this kernel has no field %s", p.Name, name)
		}
	}
	return nil
}

// value returns a field of an event, with its sign. It returns false if data is too short.
func (p *Tracepoint) value(data []byte, name string) (int64, bool) {
	f := p.fields[name]
	if f.size == 0 || f.offset+f.size > len(data) {
		return 0, false
	}
	b := data[f.offset:]
	switch f.size {
	case 2:
		return int64(int16(binary.NativeEndian.Uint16(b))), true
	case 4:
		return int64(int32(binary.NativeEndian.Uint32(b))), true
	}
	return int64(binary.NativeEndian.Uint64(b)), true
}
