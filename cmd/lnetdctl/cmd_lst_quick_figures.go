package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// sample reads the counters of the clients and servers of the test.
func (q *quick) sample(ctx context.Context) (report.Sample, error) {
	return q.client.LstStat(ctx, api.LstStat{Key: q.key, Targets: []string{q.batch.From, q.batch.To}, Timeout: 5})
}

// watch prints a line of figures about the clients every second while the test runs. After the configured
// duration, or earlier if an error occurs or ctx is done, it stops the test and prints the totals.
func (q *quick) watch(ctx context.Context) error {
	begun := time.Now()
	old := q.first
	last := old
	var told error
	for elapsed := time.Duration(0); elapsed < q.options.duration; elapsed = time.Since(begun) {
		if err := q.wait(ctx, min(quickInterval, q.options.duration-elapsed)); err != nil {
			break
		}
		now, err := q.sample(ctx)
		if err != nil {
			told = q.refused(ctx, "Failed to stat", err)
			break
		}
		last = now
		if err := q.show(time.Since(begun), old, now); err != nil {
			told = err
			break
		}
		old = now
		if q.seen = troubles(&now); q.seen != nil {
			break // the units with errors have stopped
		}
	}
	q.result.Seconds = time.Since(begun).Seconds()
	return errors.Join(told, q.finish(ctx, last))
}

// troubles returns those targets in s that have nodes with test errors, or nodes that cannot be reached.
func troubles(s *report.Sample) (list []report.Trouble) {
	for _, t := range s.Troubles(true) {
		if t.Total() > 0 {
			list = append(list, t)
		}
	}
	return list
}

// show prints a line with the figures of the clients between two samples. The time since the start of the test
// is at.
func (q *quick) show(at time.Duration, old, now report.Sample) error {
	i, err := now.Since(old)
	if err != nil {
		return err
	}
	clients := &i[0]
	if q.json {
		return q.printJSONLine(clients)
	}
	_, err = fmt.Fprintf(q.stdout, "%4.0fs  %s\n", at.Seconds(), q.figures(clients))
	return err
}

// figures returns a text with the bandwidth, the RPC rate and the latency of the clients in an interval.
func (q *quick) figures(i *report.Interval) string {
	traffic := &i.Receive
	if q.batch.BRW.Write || q.options.ping {
		traffic = &i.Send
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%9.2f MiB/s  %8.0f RPC/s  latency ", traffic.Bandwidth.Avg/(1<<20), i.RPC.Sent.Avg)
	if l := i.Latency; l == nil {
		b.WriteString("n/a")
	} else {
		fmt.Fprintf(&b, "p50 %s p90 %s p99 %s max %s",
			shortDuration(l.P50), shortDuration(l.P90), shortDuration(l.P99), shortDuration(l.Max))
	}
	if i.Failed > 0 {
		fmt.Fprintf(&b, "  (%d of %d nodes did not answer)", i.Failed, i.Failed+i.Nodes)
	}
	return b.String()
}
