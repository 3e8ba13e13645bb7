package main

import (
	"context"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

var statsErrors = errorForm{op: "show", entity: "statistics"}

func (p *program) statsCommand() *cobra.Command {
	var level string
	c := leaf(manual{
		use:   "show [--verbose]",
		short: "print the node's counters",
		long: `With --verbose, which lnetctl does not have, it also prints the numbers of dropped messages
and of refused connections by reason, and of events that had no log line of their own.`,
		example: `lnetdctl stats show
lnetdctl stats show -v`,
	}, func(ctx context.Context) error {
		return show(p, statsErrors, classic,
			func(c *client.Client) (api.Stats, error) { return c.Stats(ctx) },
			func(s api.Stats) any { return s },
			func(s api.Stats) mapping { return statsDocument(&s, verbosityLevel(level)) })
	})
	verbosity(c, &level, "print reasons too; all `LEVEL`s above 0 mean the same")
	p.withRates(c, statsErrors, func(context.Context) (counted, error) {
		return nodeCounters(verbosityLevel(level), func(string) bool { return true }), nil
	})
	return group("stats", "the node's counters", c, leaf(manual{
		use:     "reset",
		short:   "zero the counters of the node, its NIs and its peers",
		long:    `Latencies are cleared too. The counters of metrics and of the log are not reset.`,
		example: "lnetdctl stats reset",
	}, func(ctx context.Context) error {
		return p.tell(errorForm{op: "set", entity: "statistics"},
			func(c *client.Client) error { return c.ResetStats(ctx) })
	}))
}

// statsDocument returns the document of "stats show" (lnetctl 5.6). Its keys are those of the
// control interface.
func statsDocument(s *api.Stats, level int64) mapping {
	m := mapping{{"statistics", countersDocument(s.Counters)}}
	if level >= 1 {
		m = append(m, entry{"drops", reasonsDocument(s.Drops)}, entry{"refusals", reasonsDocument(s.Refusals)}, entry{"log", countersDocument(s.Log)})
	}
	return m
}

// countersDocument returns the fields of a struct of counters.
func countersDocument(counters any) (m mapping) {
	v := reflect.ValueOf(counters)
	for k := range v.NumField() {
		m = append(m, entry{v.Type().Field(k).Tag.Get("json"), number(v.Field(k).Uint())})
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
