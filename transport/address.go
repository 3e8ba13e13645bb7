package transport

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Address is where a TM is: nid:pid:portal:tmid (transport 6.1). It is comparable: two
// spellings of an address are one value. NID.Compare orders their networks. The zero
// Address is none.
type Address struct {
	NID    lnet.NID
	PID    lnet.PID
	Portal uint32
	// TMID is the number of the TM, 1 to 4095, or Dynamic.
	TMID uint16
}

const (
	// MaxTMID is the highest number of a TM.
	MaxTMID = 4095
	// Dynamic, as the number of a TM that starts, asks for one that is free: *
	Dynamic = MaxTMID + 1
	// dynamicText is how Dynamic is written.
	dynamicText = "*"
)

// Of the NID's text, how many bytes an address may have: as many as Motr takes, or, if
// that of the NID has 16 bytes, as many as such a one may need.
const (
	maxNIDText      = 31
	maxLargeNIDText = 63
)

var (
	errNoNID      = errors.New("no NID with an @ and a colon behind it")
	errLongNID    = errors.New("NID is too long")
	errFields     = errors.New("not three fields behind the NID: PID, portal, number of the TM")
	errPIDText    = errors.New("PID is not a decimal number of 32 bits")
	errPortalText = errors.New("portal is not a decimal number of 32 bits")
	errTMIDText   = errors.New("number of the TM is not 1 to 4095, or *")
)

// ParseAddress reads an address (transport 6.1): the NID, of up to 31 bytes, or 63 if it
// is a large one, ends at the first colon behind its @; the numbers are decimal, 1 to 10
// digits that fit 32 bits; the last one is 1 to 4095, or *. The portal is not checked.
// The error is an EINVAL, and a *lnet.FieldError.
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

// cutNID splits s at the first colon behind its first @: IPv6 addresses have colons, too.
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

// parseNumber reads 1 to 10 decimal digits, and nothing else, that fit 32 bits.
func parseNumber(s string) (uint32, bool) {
	if len(s) > 10 || !digits(s) {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 10, 32)
	return uint32(v), err == nil
}

// digits tells whether s is one decimal digit or more, and nothing else.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// String is the canonical address, as ParseAddress reads it; "" of the zero Address.
func (a Address) String() string {
	b, _ := a.AppendText(nil)
	return string(b)
}

// AppendText appends what String returns. It never fails.
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

// MarshalText is what String returns. It never fails.
func (a Address) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// UnmarshalText is ParseAddress, but that an empty text is the zero Address. On an error
// a keeps its value.
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

// ValidEndPoint is the test of transport 3.17 whether a text looks like an end point of
// Motr, which configuration tools apply: 0@lo, or an IPv4 address on tcp or o2ib with at
// most one digit, PID 12345, and two numbers of up to 15 digits. It takes what ParseAddress
// does not, and the other way round.
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
