package main

import (
	"context"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control"
)

func (p *program) statsCommand() *cobra.Command {
	return group("stats", "the node's counters", leaf(manual{
		use:     "show",
		short:   "print the node's counters",
		example: "lnetdctl stats show",
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "statistics"}, classic,
			func(c *control.Client) (control.Counters, error) { return c.Stats(ctx) },
			func(s control.Counters) any { return s },
			statsDocument)
	}), leaf(manual{
		use:     "reset",
		short:   "zero the counters of the node, its NIs and its peers",
		example: "lnetdctl stats reset",
	}, func(ctx context.Context) error {
		return p.tell(errorForm{op: "set", entity: "statistics"},
			func(c *control.Client) error { return c.ResetStats(ctx) })
	}))
}

// statsDocument is the document of "stats show" (lnetctl 5.6), whose keys are
// those of the control interface.
func statsDocument(s control.Counters) mapping {
	v := reflect.ValueOf(s)
	counters := mapping{}
	for k := range v.NumField() {
		counters = append(counters, entry{v.Type().Field(k).Tag.Get("json"), number(v.Field(k).Uint())})
	}
	return mapping{{"statistics", counters}}
}
