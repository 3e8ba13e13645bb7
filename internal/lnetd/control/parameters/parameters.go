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
	// Global is the section of the parameters that commands print. Commands also set those that are
	// settable (lnetctl 6).
	Global = "global"
	// Lnetd is the section of the parameters that only documents can set.
	Lnetd = "lnetd"
)

// Parameter describes a parameter of the whole node. Its values are whole numbers from Min to Max. They count
// in the unit Unit, such as seconds.
type Parameter struct {
	// Name is the key in documents and requests, and the name in commands.
	Name string
	// OldName is an older name of the key. It may be empty.
	OldName string `json:",omitzero"`
	// Section is the section of documents that has the key: Global or Lnetd.
	Section string
	// Module is the name of the equivalent parameter of the kernel module lnet. It may be empty. If
	// Inverted is set, the module's parameter is a boolean with the opposite meaning.
	Module   string `json:",omitzero"`
	Inverted bool   `json:",omitzero"`
	// Kind is the kind of the values. If it is lnd.Bool, all numbers except 0 mean 1.
	Kind     lnd.Kind `json:",omitzero"`
	Min, Max int64    `json:",omitzero"`
	Default  int64    `json:",omitzero"`
	Unit     lnd.Unit `json:",omitzero"`
	// Low is the smallest number that is used as it is. Smaller numbers mean Default.
	Low int64 `json:",omitzero"`
	// Lenient reports whether commands accept numbers outside the range, as kernels do: all numbers
	// for a boolean, and all below Min for others.
	Lenient bool `json:",omitzero"`
	// Live reports whether the parameter can be changed. A parameter that is not live is derived from
	// other parameters, or obsolete. Its values in documents are ignored.
	Live bool `json:",omitzero"`
	// NoEffect is a message for the operator that setting the parameter has no effect. It is empty if
	// setting it has an effect.
	NoEffect string `json:",omitzero"`
	// Resets reports whether the parameter is set to Default if a document asks to delete its key
	// (lnetctl 7.4).
	Resets bool `json:",omitzero"`
	// Bounded reports whether other parameters limit the value of this one. If it is to become greater,
	// the other parameters must be changed before it. If it is to become smaller, they must be changed
	// after it.
	Bounded bool `json:",omitzero"`
	// Values describes the valid values for an operator. If it is empty, the range from Min to Max
	// describes them.
	Values string `json:",omitzero"`
	// Refusal is lnetctl's message about an invalid value. If it is empty, lnetctl prints that it cannot
	// configure the parameter.
	Refusal string `json:",omitzero"`
	// Help says what the number means, in one line that begins with a lower-case letter.
	Help string
}

// Settable reports whether commands can set the parameter, even if that has no effect.
func (p *Parameter) Settable() bool { return p.Section == Global && (p.Live || p.NoEffect != "") }

// Range returns the range of the values that documents may have.
func (p *Parameter) Range() api.Range { return api.Range{Min: p.Min, Max: p.Max} }

// RequestRange returns the range of the values that commands and requests may have. It may be larger than
// Range; Stored converts such a value.
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

// Stored returns the value that the node stores if the parameter is set to v. It differs from v if v stands for
// another number, such as the default.
func (p *Parameter) Stored(v int64) int64 {
	switch {
	case p.Kind == lnd.Bool && v != 0:
		return 1
	case v < p.Low:
		return p.Default
	}
	return v
}

// Valid returns a description of the valid values for an operator, such as "0 to 1000".
func (p *Parameter) Valid() string {
	switch {
	case p.Values != "":
		return p.Values
	case p.Unit.Name != "":
		return fmt.Sprintf("%s %s", p.Range(), p.Unit.Name)
	}
	return p.Range().String()
}

// Describe returns the unit, if the parameter has a unit, and Help, as the reference document and commands print
// them.
func (p *Parameter) Describe() string {
	if p.Unit.Name == "" {
		return p.Help
	}
	return p.Unit.Name + ": " + p.Help
}

//go:embed parameters.json
var encoded []byte

// Table returns all parameters, in the order in which commands print them.
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

// Settable returns the parameters that commands can set, in order.
func Settable() []Parameter {
	return slices.DeleteFunc(Table(), func(p Parameter) bool { return !p.Settable() })
}
