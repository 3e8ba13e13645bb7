package control

import (
	"context"

	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstStat is the body of POST /v1/lst/stat.
type LstStat struct {
	Key LstKey `json:"key"`
	// Targets are names of groups, or lists of NIDs.
	Targets []string `json:"targets"`
	// Timeout bounds the wait, in seconds; it is held to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}

// LstStat asks nodes for their counters.
func (c *Client) LstStat(ctx context.Context, r LstStat) (report.Sample, error) {
	return lstCall[report.Sample](ctx, c, "stat", r)
}

func (h *handlers) lstStat(ctx context.Context, r *LstStat) (report.Sample, *Fault) {
	if len(r.Targets) == 0 {
		return report.Sample{}, invalidRequest("targets are needed", nil)
	}
	return onConsole(h, "stat", func(c *console.Console) (report.Sample, error) {
		return c.Stat(ctx, console.Key(r.Key), r.Targets, lstSeconds(r.Timeout))
	})
}
