package fault

import (
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// NIDFilter is a set of NIDs: all of them, those of a net, or one (lnet-core
// 11.1). The zero NIDFilter is all. Two that stand for the same set are ==.
type NIDFilter struct {
	// nid is zero for all NIDs, and the address 255.255.255.255 of a net for
	// all of that.
	nid lnet.NID
}

// everyAddress on a net stands for all of its addresses.
const everyAddress = 0xffffffff

const (
	anyText = "*"
	netText = "*@"
)

// Only is the filter that a NID stands for: that NID alone, or every NID for
// the wildcard and the zero NID, or every NID of its net for the address
// 255.255.255.255.
func Only(n lnet.NID) NIDFilter {
	if n.IsAny() {
		return NIDFilter{}
	}
	return NIDFilter{nid: n}
}

// On takes every NID of a net, large ones too; lnet.NetAny is every NID.
func On(n lnet.Net) NIDFilter { return Only(lnet.NIDFromNumber(n, everyAddress)) }

// ParseNIDFilter reads "*", "*@NET" or a NID (lnet-core 11.3). What is none of
// these is a *lnet.FieldError.
func ParseNIDFilter(s string) (NIDFilter, error) {
	if s == anyText {
		return NIDFilter{}, nil
	}
	if name, ok := strings.CutPrefix(s, netText); ok {
		n, err := lnet.ParseNet(name)
		if err != nil {
			return NIDFilter{}, err
		}
		return On(n), nil
	}
	n, err := lnet.ParseNID(s)
	if err != nil {
		return NIDFilter{}, err
	}
	return Only(n), nil
}

// IsAny tells whether f takes every NID.
func (f NIDFilter) IsAny() bool { return f == NIDFilter{} }

// isNet tells whether f takes every NID of a net.
func (f NIDFilter) isNet() bool {
	return !f.IsAny() && !f.nid.IsLarge() && f.nid.Number() == everyAddress
}

// Match tells whether f takes n. Only the filter of all takes the zero NID.
func (f NIDFilter) Match(n lnet.NID) bool {
	switch {
	case f.IsAny():
		return true
	case f.isNet():
		return n.Net() == f.nid.Net()
	}
	return n == f.nid
}

// String is f as ParseNIDFilter reads it.
func (f NIDFilter) String() string {
	switch {
	case f.IsAny():
		return anyText
	case f.isNet():
		return netText + f.nid.Net().String()
	}
	return f.nid.String()
}

// MarshalText is String. It never fails.
func (f NIDFilter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is ParseNIDFilter. On an error f keeps its value.
func (f *NIDFilter) UnmarshalText(text []byte) error {
	v, err := ParseNIDFilter(string(text))
	if err != nil {
		return err
	}
	*f = v
	return nil
}
