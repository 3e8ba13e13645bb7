package lnet

import (
	"errors"
	"strconv"
	"strings"
)

// PID tells processes of one node apart; on the wire it is compared with the
// PIDs of match entries and otherwise ignored (lnet-wire 2.6).
type PID uint32

const (
	// PIDLustre is the PID of every kernel node, and ours.
	PIDLustre PID = 12345
	// PIDAny is the wildcard.
	PIDAny PID = 0xffffffff
	// PIDUserFlag is set by the receiver in the PID of a peer that connected
	// from an unprivileged TCP port.
	PIDUserFlag PID = 0x80000000
	// PIDReserved are the bits that no process may use for itself.
	PIDReserved PID = 0xf0000000
)

// pidAnyText is how PIDAny is written.
const pidAnyText = "LNET_PID_ANY"

// String is the PID in decimal, "U7" for 7 with PIDUserFlag, or
// "LNET_PID_ANY".
func (p PID) String() string {
	switch {
	case p == PIDAny:
		return pidAnyText
	case p&PIDUserFlag != 0:
		return "U" + strconv.FormatUint(uint64(p&^PIDUserFlag), 10)
	}
	return strconv.FormatUint(uint64(p), 10)
}

// ProcessID is a process of a node.
type ProcessID struct {
	NID NID
	PID PID
}

// String is "12345-10.0.0.1@tcp".
func (p ProcessID) String() string { return p.PID.String() + "-" + p.NID.String() }

// MarshalText is p as text. It never fails.
func (p ProcessID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParseProcessID. On an error p keeps its value.
func (p *ProcessID) UnmarshalText(text []byte) error {
	v, err := ParseProcessID(string(text))
	if err != nil {
		return err
	}
	*p = v
	return nil
}

var errPID = errors.New("not LNET_PID_ANY or a decimal number of 32 bits")

// ParseProcessID reads [PID-]NID, where the PID is PIDLustre when missing. It
// takes what String writes and what ParseNID takes.
func ParseProcessID(s string) (ProcessID, error) {
	pid, text := PIDLustre, s
	if before, after, found := cutPID(s); found {
		v, ok := parsePID(before)
		if !ok {
			return ProcessID{}, &FieldError{What: "process ID", Field: "PID", Value: before, Err: errPID}
		}
		pid, text = v, after
	}
	nid, err := ParseNID(text)
	if err != nil {
		return ProcessID{}, err
	}
	return ProcessID{NID: nid, PID: pid}, nil
}

// cutPID splits s at its first '-' unless that belongs to the NID: the
// address of lo may be anything.
func cutPID(s string) (pid, nid string, found bool) {
	pid, nid, found = strings.Cut(s, "-")
	if !found || strings.Contains(pid, "@") {
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
