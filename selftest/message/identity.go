package message

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/lnetd/lnetd/lnet"
)

// NID4 is a NID in the encoding of these messages: the net in the upper 32 bits, the address in the lower 32.
// It can contain any received value, even if that is not a valid NID. Large NIDs cannot be encoded.
type NID4 uint64

// AnyNID4 is the wildcard. In a SessionID it means that there is no session.
const AnyNID4 = ^NID4(0)

// NID4Of returns the encoding of a NID. It returns false if the NID is large.
func NID4Of(n lnet.NID) (NID4, bool) {
	if n.IsAny() {
		return AnyNID4, true
	}
	v, ok := n.NID4()
	return NID4(v), ok
}

// NID returns the NID that n is the encoding of.
func (n NID4) NID() lnet.NID { return lnet.NIDFrom4(uint64(n)) }

// IsAny reports whether n is AnyNID4.
func (n NID4) IsAny() bool { return n == AnyNID4 }

// anyText is the text form of AnyNID4.
const anyText = "any"

// String returns the text of the NID, or "any" for AnyNID4. If a received value has no text that could be
// parsed again, such as one with network type 0, String returns the number in hexadecimal with the prefix 0x.
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

// MarshalText returns the result of String.
func (n NID4) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses any text that String returns.
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

// parseHexNID4 parses a number with the prefix 0x.
func parseHexNID4(text string) (NID4, error) {
	v, err := strconv.ParseUint(text[len("0x"):], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("NID %q: %w", text, err)
	}
	return NID4(v), nil
}

// parseNID4 parses the text of a NID.
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

// SessionID identifies a session: by the NID of its console and by a stamp, which differs for each session of
// the console.
type SessionID struct {
	NID   NID4
	Stamp int64 // milliseconds; in this implementation since 1970
}

// NoSession in a message means that the node is in no session.
var NoSession = SessionID{NID: AnyNID4, Stamp: -1}

func (s SessionID) String() string {
	if s == NoSession {
		return "no session"
	}
	return fmt.Sprintf("%d@%s", s.Stamp, s.NID)
}

// Name is the name of a session or a group: up to 31 bytes and a NUL.
type Name [32]byte

// NameOf returns the first 31 bytes of s as a Name.
func NameOf(s string) (n Name) {
	copy(n[:len(n)-1], s)
	return n
}

// String returns the bytes of the name before the first NUL.
func (n Name) String() string {
	for k, c := range n {
		if c == 0 {
			return string(n[:k])
		}
	}
	return string(n[:])
}

// Printable is like String, but with question marks in place of control characters and invalid UTF-8. Use it
// to print names that come from other hosts.
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
