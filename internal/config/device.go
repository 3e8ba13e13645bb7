package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Listed is what the numbers in brackets behind the name of an interface mean if the machine has no
// interface of that name: in eth[1-4/2] they are then those of interfaces, eth1 and eth3 (lnetctl 11).
type Listed struct {
	// Numbers are in order; nil: all.
	Numbers []int
	// CPTs are the CPU partitions for each of the interfaces; nil: all.
	CPTs []int
}

// ParseDevice reads the name of an interface, and the CPU partitions that may stand in brackets behind
// it, into an NI. Without brackets it has the CPU partitions that are given for all. A name that ends
// with a digit is always that of one interface.
func ParseDevice(s string, all []int) (NI, error) {
	name, expr, has := strings.Cut(s, "[")
	switch {
	case has && !strings.HasSuffix(expr, "]"):
		return NI{}, fmt.Errorf("interface %q: the bracket is not closed", s)
	case name == "" || strings.ContainsAny(name, " \t/,"):
		return NI{}, fmt.Errorf("interface %q: not the name of an interface", s)
	case !has:
		return NI{Device: name, CPTs: all}, nil
	}
	numbers, err := ParseCPTs("[" + expr)
	if err != nil {
		return NI{}, fmt.Errorf("interface %q: %w", s, err)
	}
	return NI{Device: name, CPTs: numbers, Listed: listedBehind(name, numbers, all)}, nil
}

// listedBehind returns what numbers behind a name may mean besides CPU partitions; nil: nothing.
func listedBehind(name string, numbers, all []int) *Listed {
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		return nil
	}
	return &Listed{Numbers: numbers, CPTs: all}
}

// ExpandDevices puts the interfaces that a name with numbers stands for in place of each NI that has
// one, if there is no interface of that very name among names. An NI of which there is none of both
// stays as it is.
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

// among returns those of names that are a prefix and one of the numbers, in the numbers' order.
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

// DevicesOf returns the names of the interfaces of NIs.
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
