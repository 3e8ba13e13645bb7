package parameters

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
)

// Sections of documents.
const (
	// Global holds the parameters that commands print, and set if they are settable (lnetctl 6).
	Global = "global"
	// Lnetd holds the parameters that only documents set.
	Lnetd = "lnetd"
)

// Parameter is a setting of the whole node. Its values are numbers from Min to Max, in multiples of
// Unit.
type Parameter struct {
	// Name is the key in documents and requests, and the name that commands have for it.
	Name string
	// OldName is an older name of the key. It may be empty.
	OldName string `json:",omitzero"`
	// Section is the section of documents: Global or Lnetd.
	Section string
	// Module is the parameter of the kernel module lnet. It may be empty. If Inverted is set, it is a
	// boolean with the opposite meaning.
	Module   string `json:",omitzero"`
	Inverted bool   `json:",omitzero"`
	// Kind is the kind of the values. All numbers except 0 mean 1 if it is lnd.Bool.
	Kind     lnd.Kind `json:",omitzero"`
	Min, Max int64    `json:",omitzero"`
	Default  int64    `json:",omitzero"`
	Unit     lnd.Unit `json:",omitzero"`
	// Low is the least number that does not stand for Default.
	Low int64 `json:",omitzero"`
	// Lenient reports whether commands accept numbers outside the range, as kernels do: all numbers
	// for a boolean, and all below Min for others.
	Lenient bool `json:",omitzero"`
	// Live reports whether the parameter can be changed while the node runs. The others cannot be
	// changed: they are derived from other parameters, or obsolete. Their values in documents are
	// ignored.
	Live bool `json:",omitzero"`
	// NoEffect explains that setting the parameter has no effect. It is empty if it has one.
	NoEffect string `json:",omitzero"`
	// Resets reports whether the deletion of the key sets the parameter to Default (lnetctl 7.4).
	Resets bool `json:",omitzero"`
	// Bounded reports whether other parameters bound the values, so that these have to be changed
	// first for a greater value, and last for a smaller one.
	Bounded bool `json:",omitzero"`
	// Values describes the valid values to an operator. If it is empty, the range does.
	Values string `json:",omitzero"`
	// Refusal is lnetctl's text for an invalid value. If it is empty, lnetctl prints that it cannot
	// configure the parameter.
	Refusal string `json:",omitzero"`
	// Help says what the number means, in one line that begins with a lower-case letter.
	Help string
}

// Settable reports whether commands set the parameter, possibly without effect.
func (p *Parameter) Settable() bool { return p.Section == Global && (p.Live || p.NoEffect != "") }

// Range returns the range in documents.
func (p *Parameter) Range() api.Range { return api.Range{Min: p.Min, Max: p.Max} }

// RequestRange returns the range in commands and requests.
func (p *Parameter) RequestRange() api.Range {
	switch r := p.Range(); {
	case !p.Live || p.Lenient && p.Kind == lnd.Bool:
		return api.Range{Min: math.MinInt64, Max: math.MaxInt64}
	case p.Lenient:
		return api.Range{Min: math.MinInt64, Max: r.Max}
	default:
		return r
	}
}

// Stored returns the number that the node has after v was set.
func (p *Parameter) Stored(v int64) int64 {
	switch {
	case p.Kind == lnd.Bool && v != 0:
		return 1
	case v < p.Low:
		return p.Default
	}
	return v
}

// Valid describes the valid values to an operator, such as "0 to 1000".
func (p *Parameter) Valid() string {
	switch {
	case p.Values != "":
		return p.Values
	case p.Unit.Name != "":
		return fmt.Sprintf("%s %s", p.Range(), p.Unit.Name)
	}
	return p.Range().String()
}

// Describe returns Help after the unit, as the reference and commands print it.
func (p *Parameter) Describe() string {
	if p.Unit.Name == "" {
		return p.Help
	}
	return p.Unit.Name + ": " + p.Help
}

//go:embed parameters.json
var encoded []byte

// Table returns all parameters, in the order in which they are shown.
func Table() (list []Parameter) {
	if err := json.Unmarshal(encoded, &list); err != nil {
		panic("parameters: parameters.json: " + err.Error()) // a test reads it
	}
	return list
}

// Shown returns the parameters that commands print, in order.
func Shown() []Parameter {
	return slices.DeleteFunc(Table(), func(p Parameter) bool { return p.Section != Global })
}

// Settable returns the parameters that commands set, in order.
func Settable() []Parameter {
	return slices.DeleteFunc(Table(), func(p Parameter) bool { return !p.Settable() })
}
