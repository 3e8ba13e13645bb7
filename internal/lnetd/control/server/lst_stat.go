package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

func (h *handlers) lstStat(ctx context.Context, r *api.LstStat) (report.Sample, *api.Fault) {
	if len(r.Targets) == 0 {
		return report.Sample{}, invalidRequest("targets are needed", nil)
	}
	return onConsole(h, "stat", func(c *console.Console) (report.Sample, error) {
		return c.Stat(ctx, console.Key(r.Key), r.Targets, lstSeconds(r.Timeout))
	})
}
