package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/drivers"
	"github.com/lnetd/lnetd/lnd"
)

// tunableOptions holds the options of a command that set LND tunables of NIs.
type tunableOptions []*tunableOption

type tunableOption struct {
	lnd.Tunable
	given string
}

// add adds an option for each LND tunable to the command c. If live is set, it adds only those for tunables that
// can be changed while an NI is up. Tunables of several drivers with the same name have one option.
func (o *tunableOptions) add(c *cobra.Command, live bool) {
	for _, table := range drivers.Tables() {
		for _, t := range table.Tunables {
			if t.Name == "" || t.PerNet || live && !t.Live || c.Flags().Lookup(t.Option()) != nil {
				continue
			}
			one := &tunableOption{Tunable: t}
			*o = append(*o, one)
			c.Flags().StringVarP(&one.given, t.Option(), t.Letter, "", usageOf(&t))
		}
	}
}

// usageOf returns the help text of the option for a tunable. It contains the range if the range is limited.
func usageOf(t *lnd.Tunable) string {
	usage := t.Help + "; `" + strings.ToUpper(cmp.Or(t.Unit.Name, "number")) + "`"
	if t.Max < math.MaxInt32 {
		usage += fmt.Sprintf(" from %d to %d", t.Min, t.Max)
	}
	return usage
}

// tunableTexts holds lnetctl's messages about invalid values of tunables, for tunables that do not have the
// usual message.
var tunableTexts = map[string]string{"tos": "Invalid ToS argument"}

// read returns the values of the options that are given, by the names of the tunables. It ignores a number below
// the range of a tunable, unless tunableTexts has a message for it. If it returns an error, it has printed it.
func (o tunableOptions) read(p *program, form errorForm) (map[string]int64, error) {
	var values map[string]int64
	for _, one := range o {
		if one.given == "" {
			continue
		}
		n, ok := parseNumber(one.given)
		text, strict := tunableTexts[one.Name]
		switch {
		case strict && (!ok || one.Check(n) != nil):
			return nil, p.invalid(form, -22, text, fmt.Sprintf("it must be a number from %d to %d", one.Min, one.Max))
		case !ok || n > one.Max:
			form.exit = exitFailure
			return nil, p.invalid(form, -1, fmt.Sprintf("invalid %s value (valid range %d-%d)", one.Option(), one.Min, one.Max), "")
		}
		if !strict && p.within(one.Option(), one.given, api.Range{Min: one.Min, Max: one.Max}) == nil {
			continue
		}
		if values == nil {
			values = map[string]int64{}
		}
		values[one.Name] = n
	}
	return values, nil
}

// first returns the first option that is given, or nil if none of them is.
func (o tunableOptions) first() *tunableOption {
	k := slices.IndexFunc(o, func(one *tunableOption) bool { return one.given != "" })
	if k < 0 {
		return nil
	}
	return o[k]
}
