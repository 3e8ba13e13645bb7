package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

var (
	errZero   = fmt.Errorf("must be 0: %w", syscall.EINVAL)
	errIsZero = fmt.Errorf("must not be 0: %w", syscall.EINVAL)
	errNoNID  = fmt.Errorf("not a NID of an interface: %w", syscall.EINVAL)
)

func fieldError(what, field string, value any, err error) error {
	return &lnet.FieldError{What: what, Field: field, Value: value, Err: err}
}

// errOutsideRange returns the error for a number that is not within low to high.
func errOutsideRange(what, field string, value, low, high uint64) error {
	return fieldError(what, field, value, fmt.Errorf("not within %d to %d: %w", low, high, syscall.EINVAL))
}

// checkLength returns an error if the length of body b is not n bytes.
func checkLength(what string, b []byte, n int) error {
	if len(b) != n {
		return fieldError(what, "body", len(b), fmt.Errorf("must be %d bytes: %w", n, syscall.EINVAL))
	}
	return nil
}

// zero32 returns an error if the reserved 32-bit word at an offset of b is not 0.
func zero32(what string, b []byte, offset int) error {
	if v := binary.LittleEndian.Uint32(b[offset:]); v != 0 {
		return fieldError(what, fmt.Sprintf("reserved word at %d", offset), v, errZero)
	}
	return nil
}

// decodeNID decodes the NID of an interface from the first 20 bytes of b. It returns an error if the NID is
// malformed, zero or the wildcard.
func decodeNID(what, field string, b []byte) (lnet.NID, error) {
	nid, err := lnet.DecodeLarge(b)
	if err != nil {
		var value any
		var bad *lnet.FieldError
		if errors.As(err, &bad) {
			field, value, err = field+"."+bad.Field, bad.Value, bad.Err
		}
		return lnet.NID{}, fieldError(what, field, value, fmt.Errorf("%w: %w", err, syscall.EINVAL))
	}
	if nid.IsZero() || nid.IsAny() {
		return lnet.NID{}, fieldError(what, field, nid, errNoNID)
	}
	return nid, nil
}

// appendText appends the first n bytes of text to b, with "?" in place of bytes that are not printable ASCII.
func appendText(b []byte, text string, n int) []byte {
	for _, c := range []byte(text[:min(len(text), n)]) {
		if c < ' ' || c > '~' {
			c = '?'
		}
		b = append(b, c)
	}
	return b
}

// shownText converts a received text as appendText does.
func shownText(b []byte, n int) string {
	return string(appendText(nil, string(b[:min(len(b), n)]), n))
}
