package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// TunablesOf returns the options of an NI, given as numbers by name. The error names an option
// that does not exist or has an invalid value.
func TunablesOf(options []Option, given map[string]int64) (Values, error) {
	var v Values
	for _, name := range slices.Sorted(maps.Keys(given)) {
		o := find(options, func(o *Option) bool { return o.Name == name })
		if o == nil {
			return nil, fmt.Errorf("there is no tunable %q", name)
		}
		text, err := o.Kind.read(strconv.FormatInt(given[name], 10))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v = v.with(o, text)
	}
	return v, nil
}

// With returns a copy of v with a number set.
func (v Values) With(name string, n int) Values {
	out := maps.Clone(v)
	if out == nil {
		out = Values{}
	}
	out[name] = strconv.Itoa(n)
	return out
}

// Names reports whether n identifies the NI o, which may be up: by interface or NID or, if the
// driver has chosen for both, by the resulting NID.
func (n *NI) Names(o *NI) bool {
	return n.key() == o.key() || n.same(o) || o.same(n) || n.Net == o.Net && n.Own == o.Own && !n.Own.IsZero()
}
