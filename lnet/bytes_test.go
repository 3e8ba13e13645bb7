package lnet

import (
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// unhex decodes a dump in the format of lnet-wire: pairs of hexadecimal digits, blanks and
// line ends, and comments after two blanks.
func unhex(t tester, dump string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(dump) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
		digits.WriteString(strings.ReplaceAll(line, " ", ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("test's own dump: %v", err)
	}
	return b
}

func mustNID(t tester, s string) NID {
	t.Helper()
	n, err := ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantNamed fails the test unless err is one of this package's errors and names its
// subject.
func wantNamed(t tester, err error) {
	t.Helper()
	var field *FieldError
	var short *TruncatedError
	var magic *MagicError
	var version *VersionError
	switch {
	case errors.As(err, &field) && field.What != "" && field.Err != nil:
	case errors.As(err, &short) && short.What != "" && short.Need > short.Have:
	case errors.As(err, &magic) && magic.What != "":
	case errors.As(err, &version) && version.What != "":
	case errors.Is(err, ErrProtocolQuery):
	default:
		t.Errorf("error %v (%T) names nothing", err, err)
	}
}

// everyTruncation calls decode with every proper prefix of b and expects
// io.ErrUnexpectedEOF.
func everyTruncation(t *testing.T, b []byte, decode func([]byte) error) {
	t.Helper()
	for n := range len(b) {
		// A new slice makes reads past the end fail.
		err := decode(append(make([]byte, 0, n), b[:n]...))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("first %d of %d bytes: error %v, want %v", n, len(b), err, io.ErrUnexpectedEOF)
		}
		wantNamed(t, err)
	}
}

// everyBitFlip calls decode with every copy of b that differs in one bit of the bytes in
// [from, to). decode may fail, but only with a named error.
func everyBitFlip(t *testing.T, b []byte, from, to int, decode func([]byte) error) {
	t.Helper()
	for bit := from * 8; bit < to*8; bit++ {
		c := append([]byte(nil), b...)
		c[bit/8] ^= 1 << (bit % 8)
		if err := decode(c); err != nil {
			wantNamed(t, err)
		}
	}
}
