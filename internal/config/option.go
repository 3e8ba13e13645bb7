package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// DriverOptions are what can be set of the drivers of one net type. Who composes
// lnetd has a table of them and hands it to Parse: this package knows no driver.
type DriverOptions struct {
	// Type is that of the driver's nets.
	Type lnet.NetType
	// Section names the mapping in "lnetd" that holds Parameters: "socklnd". Empty: there
	// is none.
	Section string
	// About is what the reference says above the section, without line ends.
	About string
	// Own are the keys that stand in "lnetd" itself. The reference says of them
	// what it says in reference.yaml, not their Help.
	Own []Option
	// Parameters are the keys of the section: module parameters under their own
	// names. No name is also in Own.
	Parameters []Option
	// Tunables are the keys of "lnd tunables", which belong to one NI.
	Tunables []Option
	// Check says what is wrong with values of Own and Parameters together.
	Check func(Values) error
}

// Option is one thing that can be set of a driver, or of one of its NIs.
type Option struct {
	Name string
	Kind Kind
	// Default is what holds if nothing is given. Empty: what holds depends on
	// more, so that any value says something.
	Default string
	// Help is what the reference says behind the value; a few words, or none.
	Help string
}

// Values are options by name, as their kinds read them. What is given but equals
// the default is left out: values that are equal mean the same.
type Values map[string]string

// with adds a value; v may be nil.
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

// Number is the value of an option whose kind is a number; false if it is not
// given. It panics if the kind is another one.
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

// Kind is what the values of an option may be: Whole, Within, Truth, Words, Text or
// Shown.
type Kind interface {
	// expected is what the value is called: "a number".
	expected() string
	// right says what may be written, for a remedy, with an example if that helps.
	right() (what, example string)
	// schema describes the values.
	schema() schema
	// read checks a value, and puts it into the form in which it is kept.
	read(text string) (string, error)
}

// Whole takes whole numbers from Min to Max.
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

// typical is a number for examples where 1 would be odd.
const typical = 10

func (k Whole) read(text string) (string, error) {
	n, err := parseWhole(text)
	if err == nil && (n < k.Min || n > k.Max) {
		err = fmt.Errorf("%d is not in %d to %d", n, k.Min, k.Max)
	}
	return strconv.Itoa(n), err
}

// Within takes whole numbers, and the next one from Min to Max in place of one
// beyond.
type Within struct{ Min, Max int }

func (Within) expected() string { return "a number" }

func (k Within) right() (what, example string) { return Whole(k).right() }

func (k Within) read(text string) (string, error) {
	n, err := parseWhole(text)
	return strconv.Itoa(max(k.Min, min(n, k.Max))), err
}

// Truth takes yes and no in all spellings that YAML has, and 1 and 0, which are
// what is kept. With Count other numbers mean yes too: it was a number in older releases.
type Truth struct{ Count bool }

func (Truth) expected() string { return "a word" }

func (Truth) right() (what, example string) { return "true or false", "" }

func (k Truth) read(text string) (string, error) {
	b, err := parseTruth(text)
	if n, wrong := parseWhole(text); k.Count && wrong == nil && n > 0 {
		b, err = true, nil
	}
	if b {
		return "1", err
	}
	return "0", err
}

// Words takes one of several words.
type Words []string

func (Words) expected() string { return "a word" }

func (k Words) right() (what, example string) { return alternatives(k), "" }

func (k Words) read(text string) (string, error) {
	if !slices.Contains(k, text) {
		return "", fmt.Errorf("%q is none of %s", text, strings.Join(k, ", "))
	}
	return text, nil
}

// Text is anything: What it is, "a path", and an Example.
type Text struct{ What, Example string }

func (k Text) expected() string { return "a word" }

func (k Text) right() (what, example string) { return k.What, k.Example }

func (Text) read(text string) (string, error) { return text, nil }

// Shown is what an export shows and nobody can set: whatever stands there means
// nothing.
type Shown struct{}

func (Shown) expected() string { return "" }

func (Shown) right() (what, example string) { return "anything", "" }

func (Shown) read(string) (string, error) { return "", nil }

// parseWhole reads a whole number.
func parseWhole(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n != int64(int(n)) || strings.Contains(text, "_") {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return int(n), nil
}

// parseTruth reads a boolean in any of YAML's spellings.
func parseTruth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y", "1":
		return true, nil
	case "false", "no", "off", "n", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// read reads the members of a mapping into v, which may be nil, but for what is none of
// the options.
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

func findOption(options []Option, name string) *Option {
	k := slices.IndexFunc(options, func(o Option) bool { return o.Name == name })
	if k < 0 {
		return nil
	}
	return &options[k]
}

// option reads the value of an option; false if there is none, or it is wrong.
func (p place) option(o *Option) (string, bool) {
	if _, shown := o.Kind.(Shown); shown || !p.scalar(o.Kind) {
		return "", false
	}
	value, err := o.Kind.read(p.node.Value)
	if err != nil {
		p.bad(err, o.Kind)
		return "", false
	}
	if within, ok := o.Kind.(Within); ok {
		if _, err := Whole(within).read(p.node.Value); err != nil {
			p.warn("%v: it is taken as %s", err, value).remedy(remedyOf(o.Kind, p.key()))
		}
	}
	return value, true
}

// Names of options in "lnetd" that the command line's --port sets.
const (
	// PortOption is the port that other nodes call.
	PortOption = "port"
	// ConnectPortOption is the port that they are called on; the former if it is
	// not given.
	ConnectPortOption = "connect_port"
)

// PortKind is the kind of both.
var PortKind = Whole{1, math.MaxUint16}
