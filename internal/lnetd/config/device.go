package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Listed is the second meaning of the numbers in brackets after an interface name. It applies if
// the host has no interface of that name. In eth[1-4/2] the numbers are then those of interfaces:
// eth1 and eth3 (lnetctl 11).
type Listed struct {
	// Numbers is sorted. Nil means all numbers.
	Numbers []int
	// CPTs are the CPU partitions of each of the interfaces. Nil means all.
	CPTs []int
}

// ParseDevice parses the name of an interface, optionally followed by CPU partitions in brackets,
// and returns an NI for it. Without brackets, the NI uses the CPU partitions in all. A name that
// ends in a digit always names a single interface.
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

// listedAfter returns the second meaning of the numbers after a name. It returns nil if the name
// ends in a digit.
func listedAfter(name string, numbers, all []int) *Listed {
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		return nil
	}
	return &Listed{Numbers: numbers, CPTs: all}
}

// ExpandDevices replaces each NI whose name has numbers by one NI per interface that the numbers
// select. It leaves an NI unchanged if names contains its exact name, or none of the numbered
// interfaces.
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

// among returns the names that consist of prefix and one of the numbers, sorted by number.
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

// namesOf returns the names of interfaces.
func namesOf(machine []Interface) (names []string) {
	for k := range machine {
		names = append(names, machine[k].Name)
	}
	return names
}
