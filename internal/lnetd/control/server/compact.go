package server

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// compact encodes values as JSON like encoding/json, but omits fields that are zero, because lists of
// many thousands of peers consist mostly of zero values. A client that decodes the result into a zero
// value gets the same value. compact also omits fields whose level of detail is higher than the requested
// one. The level of a field is the value of its tag "detail", or 0 without the tag.
type compact struct {
	detail int
	fields map[reflect.Type][]compactField
}

// compactField is a struct field that is encoded.
type compactField struct {
	index int
	key   string // the name in JSON, with quotes and a colon
}

func newCompact(detail int) *compact {
	return &compact{detail: detail, fields: map[reflect.Type][]compactField{}}
}

// append appends the encoding of the value that v points to.
func (c *compact) append(b []byte, v any) ([]byte, error) {
	return c.value(b, reflect.ValueOf(v).Elem())
}

func (c *compact) value(b []byte, v reflect.Value) ([]byte, error) {
	if text, ok := v.Addr().Interface().(encoding.TextAppender); ok {
		b, err := text.AppendText(append(b, '"'))
		return append(b, '"'), err // LNet's names contain no character that JSON escapes
	}
	switch {
	case v.Kind() == reflect.Struct:
		return c.object(b, v)
	case v.Kind() == reflect.Slice:
		return c.array(b, v)
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10), nil
	case v.CanUint():
		return strconv.AppendUint(b, v.Uint(), 10), nil
	}
	other, err := json.Marshal(v.Interface())
	return append(b, other...), err
}

func (c *compact) array(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for k := range v.Len() {
		if k > 0 {
			b = append(b, ',')
		}
		if b, err = c.value(b, v.Index(k)); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func (c *compact) object(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	begun := len(b)
	for _, f := range c.of(v.Type()) {
		field := v.Field(f.index)
		if field.IsZero() {
			continue
		}
		if len(b) > begun {
			b = append(b, ',')
		}
		var err error
		if b, err = c.value(append(b, f.key...), field); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// of returns those fields of a struct type that are encoded.
func (c *compact) of(t reflect.Type) []compactField {
	fields, known := c.fields[t]
	if known {
		return fields
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if level, _ := strconv.Atoi(f.Tag.Get("detail")); name != "-" && level <= c.detail {
			fields = append(fields, compactField{index: f.Index[0], key: strconv.Quote(name) + ":"})
		}
	}
	c.fields[t] = fields
	return fields
}
