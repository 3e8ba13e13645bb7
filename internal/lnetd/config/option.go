package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// DriverOptions describes the options of the driver for one net type and of its NIs. The caller of Parse
// passes one for each driver, so that this package does not depend on drivers.
type DriverOptions struct {
	// Table holds the tunables. Their module parameters are the keys of the driver's section in
	// "lnetd"; their names are the keys of "lnd tunables".
	lnd.Table
	// Own holds further options of the driver. They are keys of "lnetd" itself, not of the driver's
	// section, and no parameter has the same name. The file reference.yaml describes them, so their
	// Help is not used.
	Own []Option
	// Proxied means that proxies serve the NIs of the driver.
	Proxied bool
	// Check returns an error if the values of the driver's section and of Own, each of which is
	// valid, contradict each other. It may be nil.
	Check func(Values) error
}

// parameters returns the options that are keys of the driver's section in "lnetd".
func (d *DriverOptions) parameters() (list []Option) {
	for k := range d.Tunables {
		if t := &d.Tunables[k]; t.Parameter != "" {
			list = append(list, Option{
				Name: t.Parameter, Kind: Whole{int(t.Min), int(t.Max)}, Default: strconv.FormatInt(t.Default, 10), Help: helpFor(t),
			})
		}
	}
	return list
}

// tunables returns the options that are keys of "lnd tunables" for NIs of the driver.
func (d *DriverOptions) tunables() (list []Option) {
	for k := range d.Tunables {
		t := &d.Tunables[k]
		if t.Name == "" {
			continue
		}
		o := Option{Name: t.Name, Kind: Whole{int(t.Min), int(t.Max)}}
		switch {
		case t.PerNet:
			o.Kind = Shown{}
		case t.Kind == lnd.Bool:
			o.Kind = Boolean{Count: t.Max > 1}
		case t.Clamped:
			o.Kind = Within{int(t.Min), int(t.Max)}
		}
		list = append(list, o)
	}
	return list
}

// helpFor returns the comment on a tunable for the reference document.
func helpFor(t *lnd.Tunable) string {
	if t.Unit.Name == "" {
		return t.Help
	}
	return t.Unit.Name + ": " + t.Help
}

// tableOf returns the options of the driver for a net type. Without such a driver, it returns an empty
// DriverOptions.
func tableOf(drivers []DriverOptions, t lnet.NetType) *DriverOptions {
	if d := find(drivers, func(d *DriverOptions) bool { return d.Type == t }); d != nil {
		return d
	}
	return &DriverOptions{}
}

// Option is an option of a driver or of one of its NIs.
type Option struct {
	Name string
	Kind Kind
	// Default is the value that the option has if it is absent. It is empty if the default depends
	// on other settings. In this case Values contains the option whenever it was set.
	Default string
	// Help is a short comment for the reference document. It may be empty.
	Help string
}

// Values holds the values of options by name, in the canonical form of their kind. A value that equals
// the option's default is omitted, so that two Values with the same meaning are equal.
type Values map[string]string

// with sets the option o to a value, or removes it from v if the value is the default. It changes v
// and returns it. If v is nil, it returns a new map.
func (v Values) with(o *Option, value string) Values {
	if v == nil {
		v = Values{}
	}
	v[o.Name] = value
	if value == o.Default {
		delete(v, o.Name)
	}
	return v
}

// Number returns the value of a numeric option, or false if it is not set. It panics if the
// option is not a number.
func (v Values) Number(name string) (int, bool) {
	text, ok := v[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("config: " + name + ": " + err.Error())
	}
	return n, true
}

// Kind describes the values that an option accepts. It is one of Whole, Within, Boolean, Words, Text and Shown.
type Kind interface {
	// expected returns the words for a value of this kind in a message about a value of another
	// kind, such as "a number".
	expected() string
	// right describes valid values, for advice to the operator. The example may be empty.
	right() (what, example string)
	// schema returns the JSON Schema of the values.
	schema() schema
	// read validates a value and returns it in canonical form.
	read(text string) (string, error)
}

// Whole accepts whole numbers from Min to Max.
type Whole struct{ Min, Max int }

func (Whole) expected() string { return "a number" }

func (k Whole) right() (what, example string) {
	switch {
	case k.Min == math.MinInt32:
		return "a whole number", "1"
	case k == PortKind:
		example = "988"
	case k.Max >= math.MaxInt32 && k.Min > 0:
		return fmt.Sprintf("a whole number from %d", k.Min), strconv.Itoa(max(k.Min, typical))
	case k.Max >= math.MaxInt32:
		return fmt.Sprintf("a whole number from %d", k.Min), "1"
	case k.Max == k.Min+1:
		return fmt.Sprintf("%d or %d", k.Min, k.Max), ""
	}
	if example == "" {
		example = strconv.Itoa(max(k.Min, 1))
	}
	return fmt.Sprintf("a whole number from %d to %d", k.Min, k.Max), example
}

// typical is the number in examples of values that are normally greater than 1.
const typical = 10

func (k Whole) read(text string) (string, error) {
	n, err := parseWhole(text)
	if err == nil && (n < k.Min || n > k.Max) {
		err = fmt.Errorf("%d is not in %d to %d", n, k.Min, k.Max)
	}
	return strconv.Itoa(n), err
}

// Within accepts any whole number. A number less than Min is changed to Min, and one greater than Max to
// Max.
type Within struct{ Min, Max int }

func (Within) expected() string { return "a number" }

func (k Within) right() (what, example string) { return Whole(k).right() }

func (k Within) read(text string) (string, error) {
	n, err := parseWhole(text)
	return strconv.Itoa(max(k.Min, min(n, k.Max))), err
}

// Boolean accepts a boolean in all spellings of YAML, and 1 and 0. The canonical form is 1 or 0. If Count
// is set, numbers greater than 1 also mean true, because the option was a number in older releases.
type Boolean struct{ Count bool }

func (Boolean) expected() string { return "a word" }

func (Boolean) right() (what, example string) { return "true or false", "" }

func (k Boolean) read(text string) (string, error) {
	b, err := parseBool(text)
	if n, wrong := parseWhole(text); k.Count && wrong == nil && n > 0 {
		b, err = true, nil
	}
	if b {
		return "1", err
	}
	return "0", err
}

// Words accepts one of several words.
type Words []string

func (Words) expected() string { return "a word" }

func (k Words) right() (what, example string) { return alternatives(k), "" }

func (k Words) read(text string) (string, error) {
	if !slices.Contains(k, text) {
		return "", fmt.Errorf("%q is not one of %s", text, strings.Join(k, ", "))
	}
	return text, nil
}

// Text accepts any text. The field What describes it, such as "a path", and Example is a valid
// value.
type Text struct{ What, Example string }

func (k Text) expected() string { return "a word" }

func (k Text) right() (what, example string) { return k.What, k.Example }

func (Text) read(text string) (string, error) { return text, nil }

// Shown is the kind of an option that exports contain but that cannot be set. Any value is accepted and
// ignored.
type Shown struct{}

func (Shown) expected() string { return "" }

func (Shown) right() (what, example string) { return "anything", "" }

func (Shown) read(string) (string, error) { return "", nil }

// parseWhole parses a whole number.
func parseWhole(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n != int64(int(n)) || strings.Contains(text, "_") {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return int(n), nil
}

// parseBool parses a boolean in any of YAML's spellings.
func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y", "1":
		return true, nil
	case "false", "no", "off", "n", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// read stores those members of a mapping in v that are in options, and returns v. If v is nil and a
// member is stored, it returns a new map. Invalid values are reported and not stored.
func (v Values) read(members []member, options []Option) Values {
	for _, m := range members {
		if o := findOption(options, m.key); o == nil {
			continue
		} else if value, ok := m.value.option(o); ok {
			v = v.with(o, value)
		}
	}
	return v
}

// Set calls set for each parameter of the table t that has a value in v. It panics if set returns an
// error, because the values have been validated.
func (v Values) Set(t lnd.Table, set func(parameter string, n int64) error) {
	for k := range t.Tunables {
		if n, ok := v.Number(t.Tunables[k].Parameter); ok {
			if err := set(t.Tunables[k].Parameter, int64(n)); err != nil {
				panic("config: " + err.Error())
			}
		}
	}
}

// numbers converts v, whose values must all be numbers. It returns nil if v is empty.
func (v Values) numbers() lnd.Values {
	var numbers lnd.Values
	for name := range v {
		n, _ := v.Number(name)
		numbers = numbers.With(name, int64(n))
	}
	return numbers
}

func findOption(options []Option, name string) *Option {
	k := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if k < 0 {
		return nil
	}
	return &options[k]
}

// option returns the value as a value of the option o. It returns false if the value is ignored or
// invalid; a problem with an invalid value is reported.
func (p place) option(o *Option) (string, bool) {
	if _, shown := o.Kind.(Shown); shown || !p.scalar(o.Kind) {
		return "", false
	}
	value, err := o.Kind.read(p.node.Value)
	if err != nil {
		p.reportInvalid(err, o.Kind)
		return "", false
	}
	if within, ok := o.Kind.(Within); ok {
		if _, err := Whole(within).read(p.node.Value); err != nil {
			p.warn("%v: lnetd uses %s instead", err, value).remedy(remedyOf(o.Kind, p.key()))
		}
	}
	return value, true
}

// Names of the options in "lnetd" that the command-line option --port sets.
const (
	// PortOption is the option for the port to listen on.
	PortOption = "port"
	// ConnectPortOption is the option for the port to connect to. It defaults to the value of
	// PortOption.
	ConnectPortOption = "connect_port"
)

// PortKind is the kind of PortOption and ConnectPortOption.
var PortKind = Whole{1, math.MaxUint16}
