package fault

import (
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// NIDFilter is a set of NIDs: all NIDs, those of one net, or a single one (lnet-core
// 11.1). The zero NIDFilter matches all NIDs. Filters for the same set compare equal with
// ==.
type NIDFilter struct {
	// nid is zero for a filter that matches all NIDs. In a filter for one net, it has the
	// address 255.255.255.255 on that net.
	nid lnet.NID
}

// everyAddress is the address that stands for all addresses of a net in a filter.
const everyAddress = 0xffffffff

const (
	anyText = "*"
	netText = "*@"
)

// Only returns the filter that matches n alone. If n is the wildcard or the zero NID, the
// filter matches every NID. If n has the address 255.255.255.255, it matches every NID of
// n's net.
func Only(n lnet.NID) NIDFilter {
	if n.IsAny() {
		return NIDFilter{}
	}
	return NIDFilter{nid: n}
}

// On returns the filter that matches every NID of a net, including large NIDs. For
// lnet.NetAny it matches every NID.
func On(n lnet.Net) NIDFilter { return Only(lnet.NIDFromNumber(n, everyAddress)) }

// ParseNIDFilter parses "*", "*@NET" or a NID (lnet-core 11.3). It returns a
// *lnet.FieldError if s has another form.
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

// IsAny reports whether f matches every NID.
func (f NIDFilter) IsAny() bool { return f == NIDFilter{} }

// isNet reports whether f matches every NID of one net.
func (f NIDFilter) isNet() bool {
	return !f.IsAny() && !f.nid.IsLarge() && f.nid.Number() == everyAddress
}

// Match reports whether f matches n. The zero NID is matched only by the filter for all
// NIDs.
func (f NIDFilter) Match(n lnet.NID) bool {
	switch {
	case f.IsAny():
		return true
	case f.isNet():
		return n.Net() == f.nid.Net()
	}
	return n == f.nid
}

// String returns f in the form that ParseNIDFilter accepts.
func (f NIDFilter) String() string {
	switch {
	case f.IsAny():
		return anyText
	case f.isNet():
		return netText + f.nid.Net().String()
	}
	return f.nid.String()
}

// MarshalText returns the result of String. It never fails.
func (f NIDFilter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText parses text with ParseNIDFilter. If that fails, f is unchanged.
func (f *NIDFilter) UnmarshalText(text []byte) error {
	v, err := ParseNIDFilter(string(text))
	if err != nil {
		return err
	}
	*f = v
	return nil
}
