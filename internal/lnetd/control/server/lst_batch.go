package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

func (h *handlers) lstAddBatch(_ context.Context, r *api.LstNamed) (api.Done, *api.Fault) {
	return onConsole(h, "add_batch", func(c *console.Console) (api.Done, error) {
		return api.Done{}, c.AddBatch(console.Key(r.Key), r.Name)
	})
}

func (h *handlers) lstAddTest(ctx context.Context, r *api.LstTest) (report.TestAddition, *api.Fault) {
	return onConsole(h, "add_test", func(c *console.Console) (report.TestAddition, error) {
		return c.AddTest(ctx, console.Key(r.Key), console.Test{
			Batch: r.Batch, From: r.From, To: r.To, Kind: console.TestKind(r.Kind),
			Loop: r.Loop, Concurrency: r.Concurrency, Distribute: r.Distribute, Span: r.Span,
			BRW: console.BRW{Write: r.BRW.Write, Size: r.BRW.Size, Offset: r.BRW.Offset, Check: r.BRW.Check},
		})
	})
}

func (h *handlers) lstRun(ctx context.Context, r *api.LstRun) (report.Result, *api.Fault) {
	if fault := checkLstTimeout(r.Timeout); fault != nil {
		return report.Result{}, fault
	}
	return onConsole(h, "run", func(c *console.Console) (report.Result, error) {
		return c.Run(ctx, console.Key(r.Key), r.Batch, lstSeconds(r.Timeout))
	})
}

func (h *handlers) lstStop(ctx context.Context, r *api.LstStop) (report.Result, *api.Fault) {
	return onConsole(h, "stop", func(c *console.Console) (report.Result, error) {
		return c.Stop(ctx, console.Key(r.Key), r.Batch, r.Force)
	})
}

func (h *handlers) lstQuery(ctx context.Context, r *api.LstQuery) (report.QueryResult, *api.Fault) {
	return onConsole(h, "query", func(c *console.Console) (report.QueryResult, error) {
		return c.Query(ctx, console.Key(r.Key), r.Batch, console.QueryOptions{
			Test: r.Test, Servers: r.Servers, Timeout: lstSeconds(r.Timeout),
		})
	})
}

func (h *handlers) lstBatches(_ context.Context, r *api.Lst) (api.LstNames, *api.Fault) {
	return onConsole(h, "list_batch", func(c *console.Console) (api.LstNames, error) {
		names, err := c.Batches(console.Key(r.Key))
		return api.LstNames{Names: names}, err
	})
}

func (h *handlers) lstBatch(_ context.Context, r *api.LstNamed) (report.BatchInfo, *api.Fault) {
	return onConsole(h, "list_batch", func(c *console.Console) (report.BatchInfo, error) { return c.Batch(console.Key(r.Key), r.Name) })
}
