package lnet

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// FieldError says that one field of something read, or about to be written,
// has a value that it may not have. It prints as
//
//	header: payload_length 2000000: more than 1048576 bytes
type FieldError struct {
	// What is the thing the field belongs to: "header", "NID".
	What string
	// Field is the field's name as lnet-wire spells it; empty if What is
	// itself a single field.
	Field string
	// Value is what the field holds; nil if there is nothing to show.
	Value any
	// Err is what is wrong with it.
	Err error
}

// Error joins the parts that are set. A long text is shown in part, since it
// may come from anybody.
func (e *FieldError) Error() string {
	s := e.What
	switch value := shown(e.Value); {
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

// Unwrap is Err.
func (e *FieldError) Unwrap() error { return e.Err }

// maxShown is how much of a text an error shows, in bytes.
const maxShown = 80

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if len(v) > maxShown {
			return strconv.Quote(v[:maxShown]) + "..."
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

// TruncatedError says that a buffer ends before what it holds does. It is an
// io.ErrUnexpectedEOF for errors.Is.
type TruncatedError struct {
	// What was being read: "header", "ping info".
	What string
	// Need is how many bytes there must be, as far as what is there tells;
	// with so many, a decoder may still ask for more.
	Need int
	// Have is how many there are.
	Have int
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%s: %d of %d bytes: %v", e.What, e.Have, e.Need, io.ErrUnexpectedEOF)
}

// Unwrap is io.ErrUnexpectedEOF.
func (e *TruncatedError) Unwrap() error { return io.ErrUnexpectedEOF }

// IsShort tells whether err says that more bytes are needed.
func IsShort(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

// MagicError says that something starts with a magic that it may not have.
type MagicError struct {
	// What was being read.
	What string
	// Magic is the first four bytes as a little-endian number.
	Magic uint32
}

func (e *MagicError) Error() string {
	return fmt.Sprintf("%s: magic %#08x: unknown", e.What, e.Magic)
}

// VersionError says that something has the right magic and a version that is
// not spoken here.
type VersionError struct {
	// What was being read.
	What string
	// Version is the number found, in the sender's byte order.
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: version %d: unknown", e.What, e.Version)
}
