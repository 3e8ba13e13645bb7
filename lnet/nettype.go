package lnet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// NetType is the type of a net. It determines the driver and the form of addresses
// (lnet-wire 2.5).
type NetType uint8

// Net types. The missing numbers belonged to drivers that are in no release since 2.10.
// Drivers that are not in this list may use any other number from 1 to 254. Their types
// have no name unless NameType gives them one, and addresses on their nets are numbers.
const (
	TypeTCP   NetType = 2
	TypeO2IB  NetType = 5
	TypeLO    NetType = 9
	TypeGNI   NetType = 13
	TypeGIP   NetType = 14
	TypePTLF  NetType = 15
	TypeKFI   NetType = 16
	TypeTOFU  NetType = 17 // reserved; has no name
	TypeEFA   NetType = 18
	TypeBXI3F NetType = 19

	// typeAny is the type in a wildcard NID. The other bytes of such a NID have no meaning.
	typeAny NetType = 0xff
)

// NamedType is a net type that has a name.
type NamedType struct {
	Type NetType
	// Name is the text before the number of a net: "tcp" in "tcp1".
	Name string
	// IP means that addresses are IP addresses. Otherwise they are numbers.
	IP bool
}

// lnetTypes are the types to which LNet gives names, in the order in which their names are
// compared with a text: the first name that is a prefix of the text determines the type
// (lnet-wire 2.5, 3.1).
var lnetTypes = [...]NamedType{
	{TypeLO, "lo", false},
	{TypeTCP, "tcp", true},
	{TypeO2IB, "o2ib", true},
	{TypeGNI, "gni", false},
	{TypeGIP, "gip", true},
	{TypePTLF, "ptlf", false},
	{TypeKFI, "kfi", false},
	{TypeEFA, "efa", true},
	{TypeBXI3F, "bxi3f", false},
}

var (
	naming sync.Mutex // held by NameType
	// withNames are the types that have names in this process: those of LNet, followed by those that
	// NameType has added. It is nil if NameType has added none.
	withNames atomic.Pointer[[]NamedType]
)

// typesWithNames returns all types that have names.
func typesWithNames() []NamedType {
	if all := withNames.Load(); all != nil {
		return *all
	}
	return lnetTypes[:]
}

// maxTypeName is the maximum length of the name of a net type. It is that of LNet's own
// commands.
const maxTypeName = 15

// ErrTypeName means that NameType refuses a name.
var ErrTypeName = errors.New("net type cannot have this name")

// NameType gives the type t, from 1 to 254, a name in all texts that this process parses
// and writes: with {127, "mpi", true}, the net of type 127 and number 2 is "mpi2", and a NID
// on it is "10.0.0.1@mpi2". Sites use it for nets that LNet does not name. Call it when the
// program starts: the name remains until the process ends, and texts that were written
// before have no name. Other processes need the same name to read the texts.
//
// A name has 1 to 15 lower-case letters and digits. It begins and ends with a letter, since
// the number of a net follows. NameType returns ErrTypeName if the name is not of this form,
// if the type or the name is in use with another meaning, or if one of two names is the
// beginning of the other. A second call with equal arguments has no effect. NameType is safe
// for concurrent use.
func NameType(t NamedType) error {
	naming.Lock()
	defer naming.Unlock()
	all := typesWithNames()
	if slices.Contains(all, t) {
		return nil
	}
	if err := t.check(all); err != nil {
		return fmt.Errorf("net type %d: name %q: %w: %w", t.Type, t.Name, ErrTypeName, err)
	}
	withNames.Store(new(append(slices.Clone(all), t)))
	return nil
}

// check returns an error if t cannot be added to the types all.
func (t NamedType) check(all []NamedType) error {
	letter := func(c byte) bool { return 'a' <= c && c <= 'z' }
	switch n := len(t.Name); {
	case t.Type == 0 || t.Type == typeAny:
		return errors.New("the type is not within 1 to 254")
	case n < 1 || n > maxTypeName || !letter(t.Name[0]) || !letter(t.Name[n-1]) ||
		strings.Trim(t.Name, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return fmt.Errorf("not 1 to %d lower-case letters and digits, with letters at both ends", maxTypeName)
	}
	if t.Type == TypeTOFU {
		return errors.New("LNet has reserved the type")
	}
	for _, o := range all {
		switch {
		case o.Type == t.Type:
			return fmt.Errorf("the type is named %q, and its addresses are %s", o.Name, o.addresses())
		case strings.HasPrefix(o.Name, t.Name), strings.HasPrefix(t.Name, o.Name):
			return fmt.Errorf("type %d is named %q", o.Type, o.Name)
		}
	}
	return nil
}

func (t NamedType) addresses() string {
	if t.IP {
		return "IP addresses"
	}
	return "numbers"
}

// AddedTypes returns the types that NameType has named in this process.
func AddedTypes() []NamedType { return slices.Clone(typesWithNames()[len(lnetTypes):]) }

// nameOf returns the name of t among types, or "".
func nameOf(types []NamedType, t NetType) string {
	for i := range types {
		if types[i].Type == t {
			return types[i].Name
		}
	}
	return ""
}

// name returns the type's text name. It returns "" for a type without a name.
func (t NetType) name() string { return nameOf(typesWithNames(), t) }

// String returns the type's name, or text such as "?17?" for a type without a name.
func (t NetType) String() string {
	if s := t.name(); s != "" {
		return s
	}
	return "?" + strconv.Itoa(int(t)) + "?"
}

// IPAddressed reports whether addresses on nets of this type are IP addresses. If not,
// they are numbers.
func (t NetType) IPAddressed() bool {
	for _, n := range typesWithNames() {
		if n.Type == t {
			return n.IP
		}
	}
	return false
}

// ipv6 reports whether nets of this type may have IPv6 addresses.
func (t NetType) ipv6() bool { return t.IPAddressed() && t != TypeGIP }

// ErrUnknownType means that a text has a net type that has no name in this process.
var ErrUnknownType = errors.New("unknown network type")

// cutNetType splits a type name off the start of s.
func cutNetType(s string) (t NetType, rest string, ok bool) {
	for _, n := range typesWithNames() {
		if rest, ok := strings.CutPrefix(s, n.Name); ok {
			return n.Type, rest, true
		}
	}
	return 0, s, false
}

// ParseNetType parses the name of a type, such as "tcp".
func ParseNetType(s string) (NetType, error) {
	t, rest, ok := cutNetType(s)
	if !ok || rest != "" {
		return 0, &FieldError{What: "net type", Value: s, Err: ErrUnknownType}
	}
	return t, nil
}
