package control

import (
	"context"

	"github.com/lnetd/lnetd/selftest/console"
)

type (
	// LstSample has the counters of some nodes.
	LstSample = console.Sample
	// LstInterval is what has happened between two samples.
	LstInterval = console.Interval
	// LstTraffic is one direction of it.
	LstTraffic = console.Traffic
	// LstFigure has average, least and most over nodes.
	LstFigure = console.Figure
	// LstPercentiles are times of RPCs.
	LstPercentiles = console.Percentiles
	// LstTrouble has the errors of one target.
	LstTrouble = console.Trouble
	// LstNodeTrouble has those of one node.
	LstNodeTrouble = console.NodeTrouble
)

// ErrLstGroupChanged means that two samples are not of the same nodes.
var ErrLstGroupChanged = console.ErrGroupChanged

// LstStat is the body of POST /v1/lst/stat.
type LstStat struct {
	Key LstKey `json:"key"`
	// Targets are names of groups, or lists of NIDs.
	Targets []string `json:"targets"`
	// Timeout bounds the wait, in seconds; it is held to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}

// LstStat asks nodes for their counters.
func (c *Client) LstStat(ctx context.Context, r LstStat) (LstSample, error) {
	return lstCall[LstSample](ctx, c, "stat", r)
}

func (h *handlers) lstStat(ctx context.Context, r *LstStat) (LstSample, *Fault) {
	if len(r.Targets) == 0 {
		return LstSample{}, invalidRequest("targets are needed", nil)
	}
	return onConsole(h, "stat", func(c *console.Console) (LstSample, error) {
		return c.Stat(ctx, r.Key, r.Targets, lstSeconds(r.Timeout))
	})
}
