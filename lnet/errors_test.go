package lnet

import (
	"errors"
	"io"
	"testing"
)

func TestErrorTexts(t *testing.T) {
	bad := errors.New("bad")
	for want, err := range map[string]error{
		"header: payload_length 2000000: bad":    &FieldError{"header", "payload_length", 2000000, bad},
		`net "tcpx": bad`:                        &FieldError{"net", "", "tcpx", bad},
		"ping info: entries: bad":                &FieldError{"ping info", "entries", nil, bad},
		"frame: type 7":                          &FieldError{"frame", "type", 7, nil},
		"header: 10 of 72 bytes: unexpected EOF": &TruncatedError{"header", 72, 10},
		"ping info: magic 0x000001ff: unknown":   &MagicError{"ping info", 0x1ff},
		"acceptor request: version 3: unknown":   &VersionError{"acceptor request", 3},
		"acceptor request: the peer sent a protocol query instead of a request": &AcceptorError{true, ErrProtocolQuery},
		"acceptor request: magic 0xeebc0ded: unknown":                           &AcceptorError{false, &MagicError{"acceptor request", MagicTCP}},
	} {
		if err.Error() != want {
			t.Errorf("prints %q, want %q", err, want)
		}
	}
}

func TestErrorsUnwrap(t *testing.T) {
	bad := errors.New("bad")
	if !errors.Is(&FieldError{What: "header", Err: bad}, bad) {
		t.Error("a FieldError hides its cause")
	}
	if err := error(&TruncatedError{What: "header"}); !errors.Is(err, io.ErrUnexpectedEOF) || !IsShort(err) {
		t.Error("a TruncatedError is no io.ErrUnexpectedEOF")
	}
	if IsShort(bad) || IsShort(nil) {
		t.Error("IsShort takes anything")
	}
}
