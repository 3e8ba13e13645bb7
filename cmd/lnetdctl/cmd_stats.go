package main

import (
	"context"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) statsCommand() *cobra.Command {
	var level string
	c := leaf(manual{
		use:   "show [--verbose]",
		short: "print the node's counters",
		long: `With --verbose, which lnetctl does not have, it also prints the numbers of dropped messages
and of refused connections by reason.`,
		example: `lnetdctl stats show
lnetdctl stats show -v`,
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "statistics"}, classic,
			func(c *client.Client) (api.Stats, error) { return c.Stats(ctx) },
			func(s api.Stats) any { return s },
			func(s api.Stats) mapping { return statsDocument(&s, verbosityLevel(level)) })
	})
	verbosity(c, &level, "print reasons too; all `LEVEL`s above 0 mean the same")
	return group("stats", "the node's counters", c, leaf(manual{
		use:     "reset",
		short:   "zero the counters of the node, its NIs and its peers",
		long:    `Latencies are cleared too. The counters of metrics are not reset.`,
		example: "lnetdctl stats reset",
	}, func(ctx context.Context) error {
		return p.tell(errorForm{op: "set", entity: "statistics"},
			func(c *client.Client) error { return c.ResetStats(ctx) })
	}))
}

// statsDocument returns the document of "stats show" (lnetctl 5.6). Its keys are those of the
// control interface.
func statsDocument(s *api.Stats, level int64) mapping {
	v := reflect.ValueOf(s.Counters)
	counters := mapping{}
	for k := range v.NumField() {
		counters = append(counters, entry{v.Type().Field(k).Tag.Get("json"), number(v.Field(k).Uint())})
	}
	m := mapping{{"statistics", counters}}
	if level >= 1 {
		m = append(m, entry{"drops", reasonsDocument(s.Drops)}, entry{"refusals", reasonsDocument(s.Refusals)})
	}
	return m
}

func reasonsDocument(reasons []api.Reason) mapping {
	m := mapping{}
	for _, r := range reasons {
		m = append(m, entry{r.Reason, number(r.Count)})
	}
	return m
}
