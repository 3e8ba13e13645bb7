package transport

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Address is the address of a TM: nid:pid:portal:tmid (transport 6.1). Addresses can be compared with ==: all
// spellings of an address yield the same value. To sort addresses, compare their NIDs with NID.Compare. The
// zero Address is not a valid address.
type Address struct {
	NID    lnet.NID
	PID    lnet.PID
	Portal uint32
	// TMID is the number of the TM, 1 to 4095, or Dynamic.
	TMID uint16
}

const (
	// MaxTMID is the largest TM number.
	MaxTMID = 4095
	// Dynamic, as the number of a TM to be started, requests any free number. It is written as *.
	Dynamic = MaxTMID + 1
	// dynamicText is the text form of Dynamic.
	dynamicText = "*"
)

// Maximum length of a NID's text in an address, in bytes: Motr's limit for 4-byte NIDs, and the length that
// large NIDs need.
const (
	maxNIDText      = 31
	maxLargeNIDText = 63
)

var (
	errNoNID      = errors.New("it does not begin with a NID and a colon")
	errLongNID    = errors.New("NID is too long")
	errFields     = errors.New("after the NID there must be three fields: PID, portal and number of the TM")
	errPIDText    = errors.New("PID is not a decimal number of 32 bits")
	errPortalText = errors.New("portal is not a decimal number of 32 bits")
	errTMIDText   = errors.New("number of the TM is neither within 1 to 4095 nor *")
)

// ParseAddress parses an address (transport 6.1). The NID ends at the first colon after its @, and has at
// most 31 bytes, or 63 if it is a large NID. The PID, portal and TM number are decimal, have 1 to 10 digits,
// and fit in 32 bits. The TM number is 1 to 4095, or *. The portal's range is not checked. The error matches
// EINVAL and is a *lnet.FieldError.
func ParseAddress(s string) (Address, error) {
	a, err := parseAddress(s)
	if err != nil {
		return Address{}, &lnet.FieldError{What: "transport: address", Value: s, Err: fmt.Errorf("%w: %w", err, syscall.EINVAL)}
	}
	return a, nil
}

func parseAddress(s string) (a Address, err error) {
	nid, rest, found := cutNID(s)
	if !found {
		return a, errNoNID
	}
	if len(nid) > maxLargeNIDText {
		return a, errLongNID
	}
	if a.NID, err = lnet.ParseNID(nid); err != nil {
		return a, err
	}
	if len(nid) > maxNIDText && !a.NID.IsLarge() {
		return a, errLongNID
	}
	fields := strings.SplitN(rest, ":", 4)
	if len(fields) != 3 {
		return a, errFields
	}
	pid, ok := parseNumber(fields[0])
	if !ok {
		return a, errPIDText
	}
	a.PID = lnet.PID(pid)
	if a.Portal, ok = parseNumber(fields[1]); !ok {
		return a, errPortalText
	}
	if a.TMID, ok = parseTMID(fields[2]); !ok {
		return a, errTMIDText
	}
	return a, nil
}

// cutNID splits s at the first colon after its first @. A colon before the @ does not count, because the
// address in a NID may be an IPv6 address.
func cutNID(s string) (nid, rest string, found bool) {
	at := strings.IndexByte(s, '@')
	if at < 0 {
		return "", "", false
	}
	colon := strings.IndexByte(s[at:], ':')
	if colon < 0 {
		return "", "", false
	}
	return s[:at+colon], s[at+colon+1:], true
}

func parseTMID(s string) (uint16, bool) {
	if s == dynamicText {
		return Dynamic, true
	}
	v, ok := parseNumber(s)
	return uint16(v), ok && v >= 1 && v <= MaxTMID
}

// parseNumber parses 1 to 10 decimal digits that fit in 32 bits.
func parseNumber(s string) (uint32, bool) {
	if len(s) > 10 || !digits(s) {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 10, 32)
	return uint32(v), err == nil
}

// digits reports whether s consists of one or more decimal digits.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// String returns the address in canonical form, which ParseAddress accepts. It returns "" for the zero
// Address.
func (a Address) String() string {
	b, _ := a.AppendText(nil)
	return string(b)
}

// AppendText appends the result of String to b. It never fails.
func (a Address) AppendText(b []byte) ([]byte, error) {
	if a == (Address{}) {
		return b, nil
	}
	b, _ = a.NID.AppendText(b)
	b = strconv.AppendUint(append(b, ':'), uint64(a.PID), 10)
	b = strconv.AppendUint(append(b, ':'), uint64(a.Portal), 10)
	if b = append(b, ':'); a.TMID == Dynamic {
		return append(b, dynamicText...), nil
	}
	return strconv.AppendUint(b, uint64(a.TMID), 10), nil
}

// MarshalText returns the result of String. It never fails.
func (a Address) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// UnmarshalText is like ParseAddress, but accepts an empty text as the zero Address. After an error a is
// unchanged.
func (a *Address) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = Address{}
		return nil
	}
	v, err := ParseAddress(string(text))
	if err != nil {
		return err
	}
	*a = v
	return nil
}

// ValidEndPoint reports whether s passes the check of Motr's configuration tools (transport 3.17): 0@lo, or
// an IPv4 address on tcp or o2ib with a net number of at most one digit, followed by PID 12345 and two
// numbers of up to 15 digits. This check differs from ParseAddress: each accepts some texts that the other
// rejects.
func ValidEndPoint(s string) bool {
	fields := strings.SplitN(s, ":", 5)
	return len(fields) == 4 && validHost(fields[0]) && fields[1] == "12345" && validDigits(fields[2]) && validDigits(fields[3])
}

func validDigits(s string) bool { return digits(s) && len(s) <= 15 }

func validHost(s string) bool {
	ip, net, _ := strings.Cut(s, "@")
	if net == "lo" {
		return ip == "0"
	}
	number, ok := strings.CutPrefix(net, "tcp")
	if !ok {
		number, ok = strings.CutPrefix(net, "o2ib")
	}
	if !ok || len(number) > 1 || number != "" && !digits(number) {
		return false
	}
	octets := strings.SplitN(ip, ".", 5)
	for _, o := range octets {
		if v, ok := parseNumber(o); !ok || v > 255 {
			return false
		}
	}
	return len(octets) == 4 && len(ip) <= len("255.255.255.255")
}
