package lnet

import (
	"errors"
	"strconv"
	"strings"
)

// PID identifies a process of a node. LNet compares it with the PIDs of match entries, and
// otherwise does not use it (lnet-wire 2.6).
type PID uint32

const (
	// PIDLustre is the PID of every kernel node, and of lnetd.
	PIDLustre PID = 12345
	// PIDAny is the wildcard, which stands for every PID.
	PIDAny PID = 0xffffffff
	// PIDUserFlag is a bit that the receiver sets in the PID of a peer which connected from
	// an unprivileged TCP port.
	PIDUserFlag PID = 0x80000000
	// PIDReserved has the bits that must not be set in the PID of a process.
	PIDReserved PID = 0xf0000000
)

// IsApplication reports whether p can be the PID of an application's processes, such as the ranks of an MPI job (mpilnd
// B.4). On nets of type tcp it is that of a node which has called from an unprivileged port.
func (p PID) IsApplication() bool { return p&PIDReserved == PIDUserFlag }

// pidAnyText is the text of PIDAny.
const pidAnyText = "LNET_PID_ANY"

// String returns the PID in decimal, as "7", or as "U7" if PIDUserFlag is set. For PIDAny
// it returns "LNET_PID_ANY".
func (p PID) String() string {
	switch {
	case p == PIDAny:
		return pidAnyText
	case p&PIDUserFlag != 0:
		return "U" + strconv.FormatUint(uint64(p&^PIDUserFlag), 10)
	}
	return strconv.FormatUint(uint64(p), 10)
}

// ProcessID identifies a process by its node's NID and its PID.
type ProcessID struct {
	NID NID
	PID PID
}

// String returns text such as "12345-10.0.0.1@tcp".
func (p ProcessID) String() string { return p.PID.String() + "-" + p.NID.String() }

// MarshalText returns p as text. It never fails.
func (p ProcessID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses text with ParseProcessID. On an error p is unchanged.
func (p *ProcessID) UnmarshalText(text []byte) error {
	v, err := ParseProcessID(string(text))
	if err != nil {
		return err
	}
	*p = v
	return nil
}

var errPID = errors.New("not LNET_PID_ANY or a decimal number of 32 bits")

// ParseProcessID parses [PID-]NID. The default PID is PIDLustre. All results of String and
// all texts that ParseNID accepts are valid.
func ParseProcessID(s string) (ProcessID, error) {
	pid, text, err := CutPID(s)
	if err != nil {
		return ProcessID{}, err
	}
	nid, err := ParseNID(text)
	if err != nil {
		return ProcessID{}, err
	}
	return ProcessID{NID: nid, PID: pid}, nil
}

// CutPID splits a text such as "12345-10.0.0.[1-4]@tcp" into the PID and the NIDs, which may be anything. The default PID
// is PIDLustre.
func CutPID(s string) (pid PID, nids string, err error) {
	before, after, found := cutPID(s)
	if !found {
		return PIDLustre, s, nil
	}
	pid, ok := parsePID(before)
	if !ok {
		return 0, "", &FieldError{What: "process ID", Field: "PID", Value: before, Err: errPID}
	}
	return pid, after, nil
}

// cutPID splits s at its first '-'. found is false if that belongs to the NID, as in an
// address on lo, which may be any text, or in a range in brackets.
func cutPID(s string) (pid, nid string, found bool) {
	pid, nid, found = strings.Cut(s, "-")
	if !found || strings.ContainsAny(pid, "@[") {
		return "", s, false
	}
	return pid, nid, true
}

func parsePID(s string) (PID, bool) {
	if s == pidAnyText {
		return PIDAny, true
	}
	if user, ok := strings.CutPrefix(s, "U"); ok {
		v, ok := parseDecimal(user, uint32(PIDUserFlag)-1)
		return PID(v) | PIDUserFlag, ok
	}
	v, ok := parseDecimal(s, uint32(PIDAny))
	return PID(v), ok
}
