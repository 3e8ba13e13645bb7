package main

import (
	"context"
	"strconv"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// shortestInterval and longestInterval are the limits of the option --interval of "clients".
const (
	shortestInterval = time.Second / 10
	longestInterval  = time.Hour
)

// rate holds the numbers of completed operations and of transferred bytes per second.
type rate struct {
	Completed float64 `json:"completed_per_second"`
	Bytes     float64 `json:"bytes_per_second"`
}

// clientsAndRates is the output of "clients --interval --json".
type clientsAndRates struct {
	api.Clients
	Rates *clientRates `json:"rates"`
}

// clientRates holds the rates of all clients, their transfer machines and queues, in the order of
// the corresponding api.Clients.
type clientRates struct {
	Seconds float64      `json:"seconds"` // between the two samples
	Clients []clientRate `json:"clients"`
}

// clientRate holds the rates of a client, which are the sums of those of its transfer machines.
type clientRate struct {
	ID uint64 `json:"id"`
	rate
	TMs []tmRate `json:"tms"`
}

// tmRate holds the rates of a transfer machine, which are the sums of those of its queues.
type tmRate struct {
	rate
	Waits  float64     `json:"waits_per_second"`
	Queues []queueRate `json:"queues"`
}

type queueRate struct {
	Queue string `json:"queue"`
	rate
}

// watchClients reads the clients from lnetd. If interval is not 0, it reads them a second time after the
// interval, and returns the second result and the rates between the two. If it returns an error, it has
// printed it.
func (p *program) watchClients(ctx context.Context, interval time.Duration) (now api.Clients, rates *clientRates, err error) {
	c := p.client()
	defer c.Close()
	now, err = c.Clients(ctx)
	if err == nil && interval > 0 {
		old, began := now, time.Now()
		if err := p.wait(ctx, interval); err != nil {
			return now, nil, err
		}
		if now, err = c.Clients(ctx); err == nil {
			rates = ratesOf(&old, &now, time.Since(began))
		}
	}
	if err != nil {
		return now, nil, p.refused(errorForm{kind: ownText}, err)
	}
	return now, rates, nil
}

// ratesOf returns the rates between two samples, which were taken the duration took apart. The counters of
// objects that old does not contain count from zero.
func ratesOf(old, now *api.Clients, took time.Duration) *clientRates {
	seconds := took.Seconds()
	before := make(map[string]*api.ClientTM)
	for k := range old.Clients {
		c := &old.Clients[k]
		for j := range c.TMs {
			before[keyOf(c, &c.TMs[j])] = &c.TMs[j]
		}
	}
	all := &clientRates{Seconds: seconds, Clients: []clientRate{}}
	for k := range now.Clients {
		c := &now.Clients[k]
		sum := clientRate{ID: c.ID, TMs: []tmRate{}}
		for j := range c.TMs {
			r := tmRateOf(before[keyOf(c, &c.TMs[j])], &c.TMs[j], seconds)
			sum.add(r.rate)
			sum.TMs = append(sum.TMs, r)
		}
		all.Clients = append(all.Clients, sum)
	}
	return all
}

// keyOf returns a key that identifies a transfer machine among those of all clients.
func keyOf(c *api.ClientInfo, t *api.ClientTM) string {
	return strconv.FormatUint(c.ID, 10) + " " + t.NID.String() + " " + strconv.FormatUint(uint64(t.PID), 10) + " " +
		strconv.FormatUint(uint64(t.Portal), 10) + " " + strconv.FormatUint(uint64(t.ID), 10)
}

// tmRateOf returns the rates of a transfer machine between two samples. If old is nil, it did not exist at the
// first sample. If counters have decreased, now is a new transfer machine with the same address; in both cases
// the counters count from zero.
func tmRateOf(old, now *api.ClientTM, seconds float64) tmRate {
	if old == nil || old.Submissions > now.Submissions || old.Completions > now.Completions || old.Waits > now.Waits ||
		len(old.Queues) != len(now.Queues) {
		old = &api.ClientTM{Queues: make([]api.ClientQueue, len(now.Queues))}
	}
	r := tmRate{Waits: float64(now.Waits-old.Waits) / seconds, Queues: []queueRate{}}
	for k := range now.Queues {
		n, o := &now.Queues[k], &old.Queues[k]
		q := queueRate{n.Queue, rate{
			float64(int64(n.Completed-o.Completed)) / seconds, float64(int64(n.Bytes-o.Bytes)) / seconds,
		}}
		r.add(q.rate)
		r.Queues = append(r.Queues, q)
	}
	return r
}

func (r *rate) add(o rate) {
	r.Completed += o.Completed
	r.Bytes += o.Bytes
}

func (r *rate) cells() []string { return []string{perSecond(r.Completed), perSecond(r.Bytes)} }

// perSecond formats a rate, with one decimal digit if it is small.
func perSecond(v float64) string {
	if v == 0 || v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
