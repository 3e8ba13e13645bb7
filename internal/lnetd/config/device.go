package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Listed is the second meaning of numbers in brackets after an interface name. Normally the numbers are
// CPU partitions. If the host has no interface of exactly that name, the numbers select interfaces
// instead: eth[1-4/2] means eth1 and eth3 (lnetctl 11).
type Listed struct {
	// Numbers are the numbers of the interfaces, sorted. Nil means all numbers.
	Numbers []int
	// CPTs are the CPU partitions that each of the interfaces uses. Nil means all partitions.
	CPTs []int
}

// ParseDevice parses the name of an interface, which may be followed by CPU partitions in brackets, and
// returns an NI for the interface. Without brackets, the NI uses the CPU partitions in all. If the name
// does not end in a digit, the numbers in brackets may also select several interfaces (see Listed).
func ParseDevice(s string, all []int) (NI, error) {
	name, expr, has := strings.Cut(s, "[")
	switch {
	case has && !strings.HasSuffix(expr, "]"):
		return NI{}, fmt.Errorf("interface %q: the closing bracket is missing", s)
	case name == "" || strings.ContainsAny(name, " \t/,"):
		return NI{}, fmt.Errorf("interface %q: this is not a valid interface name", s)
	case !has:
		return NI{Device: name, CPTs: all}, nil
	}
	numbers, err := ParseCPTs("[" + expr)
	if err != nil {
		return NI{}, fmt.Errorf("interface %q: %w", s, err)
	}
	return NI{Device: name, CPTs: numbers, Listed: listedAfter(name, numbers, all)}, nil
}

// listedAfter returns the second meaning of the numbers in brackets after an interface name (see
// Listed). It returns nil if the name ends in a digit, because the numbers have only one meaning then.
// The interfaces use the CPU partitions in all.
func listedAfter(name string, numbers, all []int) *Listed {
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		return nil
	}
	return &Listed{Numbers: numbers, CPTs: all}
}

// ExpandDevices decides for each NI whose name has numbers in brackets what the numbers mean (see
// Listed), and returns the resulting NIs. The list names has the interfaces that exist. If it contains
// the name without the numbers, or no interface that the numbers select, the numbers are CPU partitions.
// Otherwise the NI is replaced by one NI for each selected interface.
func ExpandDevices(nis []NI, names []string) []NI {
	if !slices.ContainsFunc(nis, func(n NI) bool { return n.Listed != nil }) {
		return nis
	}
	var out []NI
	for _, ni := range nis {
		listed := ni.Listed
		ni.Listed = nil
		var found []string
		if listed != nil && !slices.Contains(names, ni.Device) {
			found = listed.among(ni.Device, names)
		}
		if len(found) == 0 {
			out = append(out, ni)
			continue
		}
		for _, name := range found {
			one := ni
			one.Device, one.CPTs = name, listed.CPTs
			out = append(out, one)
		}
	}
	return out
}

// among returns those of the names that consist of prefix and one of l.Numbers, sorted by the number.
func (l *Listed) among(prefix string, names []string) (found []string) {
	number := func(name string) int {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && strconv.Itoa(n) == digits {
			return n
		}
		return -1
	}
	for _, name := range names {
		if n := number(name); n >= 0 && (l.Numbers == nil || slices.Contains(l.Numbers, n)) {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return slices.Compact(found)
}

// DevicesOf returns the interface names of NIs.
func DevicesOf(nis []NI) (names []string) {
	for k := range nis {
		names = append(names, nis[k].Device)
	}
	return names
}

// namesOf returns the names of the host's interfaces.
func namesOf(machine []Interface) (names []string) {
	for k := range machine {
		names = append(names, machine[k].Name)
	}
	return names
}
