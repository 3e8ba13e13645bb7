package lnet

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// FieldError reports that a field has an invalid value. The field was read, or is about to
// be written. The error prints as
//
//	header: payload_length 2000000: more than 1048576 bytes
type FieldError struct {
	// What names the structure that the field belongs to, such as "header" or "NID".
	What string
	// Field is the field's name as lnet-wire spells it. It is empty if What is itself a
	// single field.
	Field string
	// Value is the field's value, or nil if it is not shown.
	Value any
	// Err describes what is wrong with the value.
	Err error
}

// Error returns the parts of e that are set. A long string value is shortened, because it
// may come from the network.
func (e *FieldError) Error() string {
	s := e.What
	switch value := formatValue(e.Value); {
	case e.Field != "" && value != "":
		s += ": " + e.Field + " " + value
	case e.Field != "":
		s += ": " + e.Field
	case value != "":
		s += " " + value
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns e.Err.
func (e *FieldError) Unwrap() error { return e.Err }

// maxFormatted is the maximum number of bytes of a string that an error shows.
const maxFormatted = 80

func formatValue(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if len(v) > maxFormatted {
			return strconv.Quote(v[:maxFormatted]) + "..."
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

// TruncatedError reports that a buffer is shorter than the structure it holds. It matches
// io.ErrUnexpectedEOF.
type TruncatedError struct {
	// What names the structure that was being read, such as "header" or "ping info".
	What string
	// Need is the number of bytes required, as far as the available bytes show it. When that
	// many bytes are available, the decoder may require more.
	Need int
	// Have is the number of bytes in the buffer.
	Have int
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%s: %d of %d bytes: %v", e.What, e.Have, e.Need, io.ErrUnexpectedEOF)
}

// Unwrap returns io.ErrUnexpectedEOF.
func (e *TruncatedError) Unwrap() error { return io.ErrUnexpectedEOF }

// IsShort reports whether err means that a buffer was too short to decode its content.
func IsShort(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

// MagicError reports an unknown magic number.
type MagicError struct {
	// What names the structure that was being read.
	What string
	// Magic is the first four bytes as a little-endian number.
	Magic uint32
}

func (e *MagicError) Error() string {
	return fmt.Sprintf("%s: magic %#08x: unknown", e.What, e.Magic)
}

// VersionError reports a valid magic followed by an unsupported version.
type VersionError struct {
	// What names the structure that was being read.
	What string
	// Version is the version that was read, in the sender's byte order.
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: version %d: unknown", e.What, e.Version)
}
