package lnd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Table describes the tunables of a driver. Configuration documents with their schema and reference, modprobe
// files, options of commands, and what commands print are made from it. So no other part of lnetd names a
// driver's tunables.
type Table struct {
	// Type is the type of the driver's nets.
	Type lnet.NetType
	// Section is the name of the driver's section in documents, such as "socklnd".
	Section string
	// About is the one-line comment above the section.
	About string
	// Tunables are all tunables, in the order in which an NI shows them.
	Tunables []Tunable
	// Module is the driver's kernel module. Unused are parameters of the module that have no use in the driver.
	Module string
	Unused []string
}

// Tunable is a number that can be set for a driver, for one of its interfaces, or for both. It has a
// Name, a Parameter, or both.
type Tunable struct {
	// Name is the tunable's key in the "lnd tunables" of an NI and in Values. The option of commands has the
	// same name with hyphens. If Name is empty, the tunable cannot be set for an NI.
	Name string `json:",omitzero"`
	// Parameter is the tunable's key in the driver's section. If it is empty, the tunable cannot be set for the
	// whole driver.
	Parameter string `json:",omitzero"`
	// Module is the kernel module that has Parameter. If it is empty, kernels do not have the tunable. An NI
	// then shows it only if the NI's or the driver's value is not Default.
	Module string `json:",omitzero"`
	// Kind is the kind of the values. They are numbers from Min to Max, in the unit Unit.
	Kind     Kind  `json:",omitzero"`
	Min, Max int64 `json:",omitzero"`
	Default  int64 `json:",omitzero"`
	Unit     Unit  `json:",omitzero"`
	// Live means that the tunable can be changed while an NI is up.
	Live bool `json:",omitzero"`
	// Auto means that the value 0 leaves the choice to the driver, which makes it when an NI comes up.
	Auto bool `json:",omitzero"`
	// PerNet means that a value applies to all NIs of a net. Documents show it for each NI, and a value that a
	// document sets for one NI is ignored.
	PerNet bool `json:",omitzero"`
	// Clamped means that a value for an NI in a document is limited to the range, as kernels do it, instead of
	// being rejected.
	Clamped bool `json:",omitzero"`
	// Letter is the short form of the commands' option. It may be empty.
	Letter string `json:",omitzero"`
	// Help says what the value means. It is one line that begins with a lower-case letter.
	Help string
}

// Kind is the kind of a tunable's values.
type Kind uint8

const (
	// Number is a whole number.
	Number Kind = iota
	// Bool is 0 or 1. If Max is greater, larger numbers mean 1.
	Bool
)

// Unit is the unit of a tunable. The zero value is the unit of plain numbers.
type Unit struct {
	Name string
	size int64 // the value of 1 unit in a field of a driver's configuration
}

// IsZero reports whether u is the unit of plain numbers.
func (u Unit) IsZero() bool { return u.Name == "" }

// Units.
var (
	Seconds      = Unit{"seconds", int64(time.Second)}
	Milliseconds = Unit{"milliseconds", int64(time.Millisecond)}
	Microseconds = Unit{"microseconds", int64(time.Microsecond)}
	Bytes        = Unit{"bytes", 1}
	MiB          = Unit{"MiB", 1 << 20}
)

// Check returns an error that contains the range if v is outside of it.
func (t *Tunable) Check(v int64) error {
	if v < t.Min || v > t.Max {
		return t.outside(v)
	}
	return nil
}

func (t *Tunable) outside(v int64) error { return fmt.Errorf("%d is not in %d to %d", v, t.Min, t.Max) }

// Stored returns v as a driver stores it. For a Bool, numbers above 1 become 1.
func (t *Tunable) Stored(v int64) int64 {
	if t.Kind == Bool {
		return min(v, 1)
	}
	return v
}

// Option returns the name of the commands' option, without the hyphens before it.
func (t *Tunable) Option() string { return strings.ReplaceAll(t.Name, "_", "-") }

// Shows reports whether an NI shows the tunable. v is the NI's value, and whole the value of the whole driver.
func (t *Tunable) Shows(v, whole int64) bool {
	return t.Module != "" || v != t.Default || whole != t.Default
}

// Named returns the tunable of an NI with the given name, or nil.
func (t *Table) Named(name string) *Tunable {
	k := slices.IndexFunc(t.Tunables, func(o Tunable) bool { return o.Name == name })
	if k < 0 || name == "" {
		return nil
	}
	return &t.Tunables[k]
}

// Values contains values of tunables of an NI, by Tunable.Name. A tunable that is absent has the driver's
// value.
type Values map[string]int64

// With returns a copy of v in which the tunable name has the value n. v may be nil.
func (v Values) With(name string, n int64) Values {
	out := maps.Clone(v)
	if out == nil {
		out = Values{}
	}
	out[name] = n
	return out
}

// Field is a tunable, together with the field of the driver's configuration C that stores its value.
type Field[C any] struct {
	Tunable
	get func(*C) int64
	put func(*C, int64)
}

// NumberIn returns a Field for the tunable t. at returns its field in the configuration, which stores the value
// multiplied by the size of t.Unit.
func NumberIn[C any, T ~int | ~int64 | ~uint8](at func(*C) *T, t Tunable) Field[C] {
	t.Unit.size = max(t.Unit.size, 1)
	return Field[C]{t, func(c *C) int64 { return int64(*at(c)) }, func(c *C, v int64) { *at(c) = T(v * t.Unit.size) }}
}

// BoolIn returns a Field for the tunable t, which is 0 or 1. at returns its field in the configuration.
func BoolIn[C any](at func(*C) *bool, t Tunable) Field[C] {
	t.Kind, t.Max, t.Unit.size = Bool, 1, 1
	return Field[C]{t, func(c *C) int64 {
		if *at(c) {
			return 1
		}
		return 0
	}, func(c *C, v int64) { *at(c) = v != 0 }}
}

// Fields are the tunables of a driver whose configuration is C.
type Fields[C any] []Field[C]

// Tunables returns the tunables without their fields, for a Table.
func (f Fields[C]) Tunables() []Tunable {
	list := make([]Tunable, len(f))
	for k := range f {
		list[k] = f[k].Tunable
	}
	return list
}

// SetDefaults sets all fields of c to the tunables' defaults.
func (f Fields[C]) SetDefaults(c *C) {
	for k := range f {
		f[k].put(c, f[k].Default)
	}
}

// Set sets the tunable with the given Parameter to v in c. It returns an error if no tunable has this
// parameter, or if v is outside its range.
func (f Fields[C]) Set(c *C, parameter string, v int64) error {
	return f.set(c, parameter, v, func(t *Tunable) string { return t.Parameter })
}

// SetAll sets tunables of an NI in c. It returns an error if a tunable does not exist or a value is outside its
// range. c is then partly changed.
func (f Fields[C]) SetAll(c *C, values Values) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := f.set(c, name, values[name], func(t *Tunable) string { return t.Name }); err != nil {
			return err
		}
	}
	return nil
}

func (f Fields[C]) set(c *C, name string, v int64, nameOf func(*Tunable) string) error {
	for k := range f {
		if nameOf(&f[k].Tunable) != name {
			continue
		}
		if err := f[k].Check(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f[k].put(c, v)
		return nil
	}
	return fmt.Errorf("the tunable %q does not exist", name)
}

// units returns the value of a configuration's field in multiples of the unit. Fractions are rounded away from
// zero, because 0 may have a special meaning.
func (t *Tunable) units(v int64) int64 {
	n := v / t.Unit.size
	switch rest := v % t.Unit.size; {
	case rest > 0:
		n++
	case rest < 0:
		n--
	}
	return n
}

// Values returns the tunables of an NI whose configuration is c. Fractions of a unit are rounded away from
// zero.
func (f Fields[C]) Values(c *C) Values {
	values := Values{}
	for k := range f {
		if t := &f[k].Tunable; t.Name != "" {
			values[t.Name] = t.Stored(t.units(f[k].get(c)))
		}
	}
	return values
}

// Validate returns an error that names the first field of c that is outside its range. A field may contain a
// fraction of a unit, which a program can set.
func (f Fields[C]) Validate(c *C) error {
	for k := range f {
		t, v := &f[k].Tunable, f[k].get(c)
		if v > (t.Min-1)*t.Unit.size && v <= t.Max*t.Unit.size && (v >= 0 || t.Min < 0) {
			continue
		}
		return fmt.Errorf("%s: %w", cmp.Or(t.Parameter, t.Name), t.outside(t.units(v)))
	}
	return nil
}
