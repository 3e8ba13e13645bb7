package message

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/lnetd/lnetd/lnet"
)

// NID4 is a NID as these messages carry it: the net in the high 32 bits, the
// address in the low ones. It is kept as it came; a large NID has none.
type NID4 uint64

// AnyNID4 stands for no NID.
const AnyNID4 = ^NID4(0)

// NID4Of is the short form of a NID; false for a large one.
func NID4Of(n lnet.NID) (NID4, bool) {
	if n.IsAny() {
		return AnyNID4, true
	}
	v, ok := n.NID4()
	return NID4(v), ok
}

// NID is the NID that n stands for.
func (n NID4) NID() lnet.NID { return lnet.NIDFrom4(uint64(n)) }

// IsAny tells whether n is AnyNID4.
func (n NID4) IsAny() bool { return n == AnyNID4 }

// anyText is the text of AnyNID4.
const anyText = "any"

// String is the NID's text. What others send may have none that could be read again,
// as with network type 0: then it is the number, in hexadecimal behind 0x.
func (n NID4) String() string {
	if n.IsAny() {
		return anyText
	}
	text := n.NID().String()
	if read, err := parseNID4(text); err != nil || read != n {
		return fmt.Sprintf("%#x", uint64(n))
	}
	return text
}

// MarshalText is String.
func (n NID4) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what String says of any NID4.
func (n *NID4) UnmarshalText(b []byte) error {
	text := string(b)
	if text == anyText {
		*n = AnyNID4
		return nil
	}
	read := parseNID4
	if strings.HasPrefix(text, "0x") {
		read = parseHexNID4
	}
	v, err := read(text)
	if err == nil {
		*n = v
	}
	return err
}

// parseHexNID4 reads a number behind 0x.
func parseHexNID4(text string) (NID4, error) {
	v, err := strconv.ParseUint(text[len("0x"):], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("NID %q: %w", text, err)
	}
	return NID4(v), nil
}

// parseNID4 reads a NID's text.
func parseNID4(text string) (NID4, error) {
	nid, err := lnet.ParseNID(text)
	if err != nil {
		return 0, err
	}
	n, ok := NID4Of(nid)
	if !ok {
		return 0, fmt.Errorf("NID %q is too long for these messages", text)
	}
	return n, nil
}

// SessionID names a session: its console and a stamp.
type SessionID struct {
	NID   NID4
	Stamp int64 // milliseconds
}

// NoSession stands where there is no session.
var NoSession = SessionID{NID: AnyNID4, Stamp: -1}

func (s SessionID) String() string {
	if s == NoSession {
		return "no session"
	}
	return fmt.Sprintf("%d@%s", s.Stamp, s.NID)
}

// Name is the name of a session or a group: up to 31 bytes and a NUL.
type Name [32]byte

// NameOf makes a Name of at most the first 31 bytes of s.
func NameOf(s string) (n Name) {
	copy(n[:len(n)-1], s)
	return n
}

// String is what is before the first NUL.
func (n Name) String() string {
	for k, c := range n {
		if c == 0 {
			return string(n[:k])
		}
	}
	return string(n[:])
}

// Printable is String with a question mark for each control character and what
// is not UTF-8: others' names are shown on terminals.
func (n Name) Printable() string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == unicode.ReplacementChar {
			return '?'
		}
		return c
	}, n.String())
}

const (
	sizeSessionID = 16
	sizeName      = 32
)

func (v view) sessionID(off int) SessionID {
	return SessionID{NID: NID4(v.u64(off)), Stamp: int64(v.u64(off + 8))}
}

func (v view) putSessionID(off int, s SessionID) {
	v.put64(off, uint64(s.NID))
	v.put64(off+8, uint64(s.Stamp))
}

func (v view) name(off int) Name       { return Name(v.b[off : off+sizeName]) }
func (v view) putName(off int, n Name) { copy(v.b[off:off+sizeName], n[:]) }
