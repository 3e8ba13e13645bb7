package control

import (
	"context"

	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstBRW are the parameters of a BRW test (selftest 5).
type LstBRW struct {
	Write bool `json:"write"`
	// Size and Offset are bytes: multiples of 8, Size up to 1 MiB, and no longer
	// with the offset than as many pages as it takes without.
	Size   int `json:"size"`
	Offset int `json:"offset,omitempty"`
	// Check is none, simple, full or discard.
	Check string `json:"check"`
}

// Kinds of tests.
const (
	LstKindBRW  = "brw"
	LstKindPing = "ping"
)

// LstTest is the body of POST /v1/lst/add_test.
type LstTest struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	From  string `json:"from"` // the group of the clients
	To    string `json:"to"`   // that of the servers
	// Kind is LstKindBRW or LstKindPing.
	Kind string `json:"kind"`
	// Loop is how many RPCs each unit makes; -1: without end.
	Loop        int32 `json:"loop"`
	Concurrency int   `json:"concurrency"`
	// Distribute clients share Span servers.
	Distribute int    `json:"distribute"`
	Span       int    `json:"span"`
	BRW        LstBRW `json:"brw,omitzero"`
}

// LstRun is the body of POST /v1/lst/run.
type LstRun struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Timeout stops the batch after so many seconds; 0: nothing does.
	Timeout int `json:"timeout,omitempty"`
}

// LstStop is the body of POST /v1/lst/stop.
type LstStop struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Force aborts the RPCs under way; else units stop after theirs.
	Force bool `json:"force,omitempty"`
}

// LstQuery is the body of POST /v1/lst/query.
type LstQuery struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Test is the index of the test that is asked about; 0: the batch.
	Test int `json:"test,omitempty"`
	// Servers asks them in place of the clients.
	Servers bool `json:"servers,omitempty"`
	// Timeout bounds the wait, in seconds.
	Timeout int `json:"timeout,omitempty"`
}

// LstAddBatch makes a batch.
func (c *Client) LstAddBatch(ctx context.Context, r LstNamed) error {
	_, err := lstCall[Done](ctx, c, "add_batch", r)
	return err
}

// LstAddTest adds a test to a batch.
func (c *Client) LstAddTest(ctx context.Context, r LstTest) (report.TestAddition, error) {
	return lstCall[report.TestAddition](ctx, c, "add_test", r)
}

// LstRun starts a batch.
func (c *Client) LstRun(ctx context.Context, r LstRun) (report.Result, error) {
	return lstCall[report.Result](ctx, c, "run", r)
}

// LstStop tells the clients of a batch to stop; LstQuery says when they have.
func (c *Client) LstStop(ctx context.Context, r LstStop) (report.Result, error) {
	return lstCall[report.Result](ctx, c, "stop", r)
}

// LstQuery asks who still runs a batch or a test.
func (c *Client) LstQuery(ctx context.Context, r LstQuery) (report.QueryResult, error) {
	return lstCall[report.QueryResult](ctx, c, "query", r)
}

// LstBatches lists the batches.
func (c *Client) LstBatches(ctx context.Context, key LstKey) ([]string, error) {
	r, err := lstCall[LstNames](ctx, c, "list_batches", Lst{Key: key})
	return r.Names, err
}

// LstBatch describes a batch.
func (c *Client) LstBatch(ctx context.Context, r LstNamed) (report.BatchInfo, error) {
	return lstCall[report.BatchInfo](ctx, c, "list_batch", r)
}

func (h *handlers) lstAddBatch(_ context.Context, r *LstNamed) (Done, *Fault) {
	return onConsole(h, "add_batch", func(c *console.Console) (Done, error) {
		return Done{}, c.AddBatch(console.Key(r.Key), r.Name)
	})
}

func (h *handlers) lstAddTest(ctx context.Context, r *LstTest) (report.TestAddition, *Fault) {
	return onConsole(h, "add_test", func(c *console.Console) (report.TestAddition, error) {
		return c.AddTest(ctx, console.Key(r.Key), console.Test{
			Batch: r.Batch, From: r.From, To: r.To, Kind: console.TestKind(r.Kind),
			Loop: r.Loop, Concurrency: r.Concurrency, Distribute: r.Distribute, Span: r.Span,
			BRW: console.BRW{Write: r.BRW.Write, Size: r.BRW.Size, Offset: r.BRW.Offset, Check: r.BRW.Check},
		})
	})
}

func (h *handlers) lstRun(ctx context.Context, r *LstRun) (report.Result, *Fault) {
	if fault := checkLstTimeout(r.Timeout); fault != nil {
		return report.Result{}, fault
	}
	return onConsole(h, "run", func(c *console.Console) (report.Result, error) {
		return c.Run(ctx, console.Key(r.Key), r.Batch, lstSeconds(r.Timeout))
	})
}

func (h *handlers) lstStop(ctx context.Context, r *LstStop) (report.Result, *Fault) {
	return onConsole(h, "stop", func(c *console.Console) (report.Result, error) {
		return c.Stop(ctx, console.Key(r.Key), r.Batch, r.Force)
	})
}

func (h *handlers) lstQuery(ctx context.Context, r *LstQuery) (report.QueryResult, *Fault) {
	return onConsole(h, "query", func(c *console.Console) (report.QueryResult, error) {
		return c.Query(ctx, console.Key(r.Key), r.Batch, console.QueryOptions{
			Test: r.Test, Servers: r.Servers, Timeout: lstSeconds(r.Timeout),
		})
	})
}

func (h *handlers) lstBatches(_ context.Context, r *Lst) (LstNames, *Fault) {
	return onConsole(h, "list_batch", func(c *console.Console) (LstNames, error) {
		names, err := c.Batches(console.Key(r.Key))
		return LstNames{Names: names}, err
	})
}

func (h *handlers) lstBatch(_ context.Context, r *LstNamed) (report.BatchInfo, *Fault) {
	return onConsole(h, "list_batch", func(c *console.Console) (report.BatchInfo, error) { return c.Batch(console.Key(r.Key), r.Name) })
}
