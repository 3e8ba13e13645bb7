package daemon

import (
	"context"
	"encoding"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Names in entries of the journal.
const (
	journalIdentifier = "lnetd"
	journalPrefix     = "LNET_"
	journalNameMost   = 64
)

// journalHandler writes log lines as entries of systemd's journal. The field MESSAGE has the text with
// all attributes, for people. The field LNET_EVENT has only the constant text, for searches. Each
// attribute is also a separate field, such as LNET_PEER for "peer". If there is no journal, the line
// goes to the fallback handler.
//
// The package journal of go-systemd is not used because it has one socket for the whole process
// and waits without limit for a journal that is stuck, which would stop the node too.
type journalHandler struct {
	journal  *journal
	level    slog.Leveler
	fallback slog.Handler

	groups []string // names of the groups that WithGroup has opened
	fields []byte   // attributes of WithAttrs, as journal fields
	text   []byte   // the same attributes, as text for MESSAGE
}

func newJournalHandler(j *journal, level slog.Leveler, fallback slog.Handler) *journalHandler {
	return &journalHandler{journal: j, level: level, fallback: fallback}
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// entry is a buffer in which one journal entry is built.
type entry struct{ fields, text []byte }

var entries = sync.Pool{New: func() any { return new(entry) }}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	e, _ := entries.Get().(*entry)
	defer entries.Put(e)
	e.text = append(append(e.text[:0], r.Message...), h.text...)
	e.fields = append(e.fields[:0], h.fields...)
	r.Attrs(func(a slog.Attr) bool {
		e.add(h.groups, a)
		return true
	})
	e.fields = appendField(e.fields, "LNET_EVENT", r.Message)
	e.fields = appendField(e.fields, "PRIORITY", priorityOf(r.Level))
	e.fields = appendField(e.fields, "SYSLOG_IDENTIFIER", journalIdentifier)
	e.fields = appendField(e.fields, "MESSAGE", e.text)
	if h.journal.put(e.fields) {
		return nil
	}
	return h.fallback.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	e := entry{fields: append([]byte(nil), h.fields...), text: append([]byte(nil), h.text...)}
	for _, a := range attrs {
		e.add(h.groups, a)
	}
	n.fields, n.text, n.fallback = e.fields, e.text, h.fallback.WithAttrs(attrs)
	return &n
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.groups, n.fallback = append(append([]string(nil), h.groups...), name), h.fallback.WithGroup(name)
	return &n
}

// priorityOf returns the level as a syslog priority.
func priorityOf(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "3"
	case l >= slog.LevelWarn:
		return "4"
	case l >= slog.LevelInfo:
		return "6"
	}
	return "7"
}

// add adds the attribute a to the text and to the fields of the entry. Its name is preceded by the
// names of the groups.
func (e *entry) add(groups []string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups = append(groups[:len(groups):len(groups)], a.Key)
		}
		for _, one := range v.Group() {
			e.add(groups, one)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	key, value := strings.Join(append(groups[:len(groups):len(groups)], a.Key), "."), textOf(v)
	e.fields = appendField(e.fields, fieldName(key), value)
	e.text = append(e.text, ' ')
	e.text = appendWord(e.text, key)
	e.text = append(e.text, '=')
	e.text = appendWord(e.text, value)
}

// appendWord appends the name or the value of an attribute to b. It puts s in quotes if s is empty or
// contains blanks, quotes, "=" or characters that cannot be printed.
func appendWord(b []byte, s string) []byte {
	for _, r := range s {
		if r <= ' ' || r == '"' || r == '=' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.AppendQuote(b, s)
		}
	}
	if s == "" {
		return append(b, `""`...)
	}
	return append(b, s...)
}

// fieldName returns an attribute's name in the form that the journal requires: capitals, digits
// and underscores, at most 64 characters.
func fieldName(key string) string {
	b := []byte(journalPrefix)
	for k := 0; k < len(key) && len(b) < journalNameMost; k++ {
		c := key[k]
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		default:
			c = '_'
		}
		b = append(b, c)
	}
	return string(b)
}

// appendField appends a field in the journal's native format, normally "NAME=value". If the value
// contains a newline, the format has the length before the value instead.
func appendField[T string | []byte](b []byte, name string, value T) []byte {
	b = append(b, name...)
	for k := range len(value) {
		if value[k] == '\n' {
			b = append(b, '\n')
			b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
			return append(append(b, value...), '\n')
		}
	}
	return append(append(append(b, '='), value...), '\n')
}

// textOf returns a value as text. If a method of the value panics, as with a nil pointer, the
// text contains the panic.
func textOf(v slog.Value) (s string) {
	defer func() {
		if p := recover(); p != nil {
			s = fmt.Sprintf("!PANIC: %v", p)
		}
	}()
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindAny:
	default:
		return v.String()
	}
	switch a := v.Any().(type) {
	case error:
		return a.Error()
	case fmt.Stringer:
		return a.String()
	case encoding.TextMarshaler:
		if b, err := a.MarshalText(); err == nil {
			return string(b)
		}
	case []string:
		return strings.Join(a, " ")
	}
	return fmt.Sprintf("%+v", v.Any())
}
