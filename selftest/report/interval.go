package report

import (
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Interval is the activity of a target's nodes between two samples.
type Interval struct {
	Name string `json:"name"`
	// Nodes is the number of nodes with counters in both samples, Failed that of all others.
	Nodes  int `json:"nodes"`
	Failed int `json:"failed"`
	// Receive and Send count all LNet messages, not only those of tests.
	Receive Traffic `json:"receive"`
	Send    Traffic `json:"send"`
	RPC     RPCs    `json:"rpc"`
	// Latency has the RPC times of clients. It is nil if they are not known for any node.
	Latency *Percentiles `json:"latency,omitempty"`
}

// Traffic is the traffic in one direction.
type Traffic struct {
	Rate      Figure `json:"rate"`      // messages per second
	Bandwidth Figure `json:"bandwidth"` // bytes per second
}

// RPCs are rates and counts of RPCs. Sent, Received and the bulk that servers move are per second.
// Errors, Dropped and Expired are totals of all nodes.
type RPCs struct {
	Sent     Figure `json:"sent"`
	Received Figure `json:"received"`
	BulkGet  Figure `json:"bulk_get"` // bytes
	BulkPut  Figure `json:"bulk_put"` // bytes
	Errors   uint64 `json:"errors"`
	Dropped  uint64 `json:"dropped"`
	Expired  uint64 `json:"expired"`
}

// Figure is a rate per node. Min is the smallest rate that is not 0.
type Figure struct {
	Avg float64 `json:"avg"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// add adds a node. Call done after the last one.
func (f *Figure) add(v float64) {
	f.Avg += v // the sum until done is called
	f.Max = max(f.Max, v)
	if v > 0 && (f.Min == 0 || v < f.Min) {
		f.Min = v
	}
}

func (f *Figure) done(nodes int) {
	if nodes > 0 {
		f.Avg /= float64(nodes)
	}
}

// Percentiles are percentiles of RPC times.
type Percentiles struct {
	Nodes int           `json:"nodes"` // number of nodes with known times
	Count uint64        `json:"count"` // number of RPCs
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p999"`
	Max   time.Duration `json:"max"`
}

// Since returns the changes since an older sample of the same targets (selftest 9). It returns
// ErrGroupChanged if the targets differ.
func (s Sample) Since(old Sample) ([]Interval, error) {
	if len(s.Targets) != len(old.Targets) {
		return nil, ErrGroupChanged
	}
	list := make([]Interval, len(s.Targets))
	for k := range s.Targets {
		a, b := &old.Targets[k], &s.Targets[k]
		if a.Name != b.Name || len(a.Nodes) != len(b.Nodes) {
			return nil, ErrGroupChanged
		}
		v := &list[k]
		v.Name = b.Name
		times := timesOf{}
		for i := range b.Nodes {
			x, y := &a.Nodes[i], &b.Nodes[i]
			if x.ID != y.ID {
				return nil, ErrGroupChanged
			}
			if !x.Success || !y.Success {
				v.Failed++
				continue
			}
			v.add(x, y)
			times.add(x.Latency, y.Latency)
		}
		v.done()
		v.Latency = times.percentiles()
	}
	return list, nil
}

// add adds a node that has answered both times. Differences of 32-bit counters are correct if they wrap.
// The time is that of the node's own clock.
func (v *Interval) add(x, y *NodeSample) {
	v.Nodes++
	seconds := float64(y.Framework.RunningMS-x.Framework.RunningMS) / 1000
	rate := func(f *Figure, n float64) {
		if seconds > 0 {
			f.add(n / seconds)
		}
	}
	short := func(f *Figure, x, y uint32) { rate(f, float64(y-x)) }
	long := func(f *Figure, x, y uint64) { rate(f, float64(y-x)) }
	short(&v.Receive.Rate, x.LNet.ReceiveCount, y.LNet.ReceiveCount)
	short(&v.Send.Rate, x.LNet.SendCount, y.LNet.SendCount)
	long(&v.Receive.Bandwidth, x.LNet.ReceiveLength, y.LNet.ReceiveLength)
	long(&v.Send.Bandwidth, x.LNet.SendLength, y.LNet.SendLength)
	short(&v.RPC.Sent, x.RPCs.Sent, y.RPCs.Sent)
	short(&v.RPC.Received, x.RPCs.Received, y.RPCs.Received)
	long(&v.RPC.BulkGet, x.RPCs.BulkGet, y.RPCs.BulkGet)
	long(&v.RPC.BulkPut, x.RPCs.BulkPut, y.RPCs.BulkPut)
	v.RPC.Errors += uint64(y.RPCs.Errors - x.RPCs.Errors)
	v.RPC.Dropped += uint64(y.RPCs.Dropped - x.RPCs.Dropped)
	v.RPC.Expired += uint64(y.RPCs.Expired - x.RPCs.Expired)
}

func (v *Interval) done() {
	for _, f := range []*Figure{
		&v.Receive.Rate, &v.Send.Rate, &v.Receive.Bandwidth, &v.Send.Bandwidth,
		&v.RPC.Sent, &v.RPC.Received, &v.RPC.BulkGet, &v.RPC.BulkPut,
	} {
		f.done(v.Nodes)
	}
}

// timesOf sums the latencies of a target's nodes.
type timesOf struct {
	nodes int
	all   latency.Histogram
}

// add adds what was recorded from x to y, or all of y if x is from other tests.
func (t *timesOf) add(x, y *latency.Histogram) {
	if y == nil {
		return
	}
	t.nodes++
	h := *y
	if x != nil && within(x, y) {
		for k, n := range x.Counts {
			h.Counts[k] -= n
		}
		h.Sum -= x.Sum
		// The time of the maximum is not known, so use the end of the last bucket.
		for k := len(h.Counts) - 1; k >= 0; k-- {
			if h.Counts[k] > 0 {
				if _, end := latency.Bounds(k); k < len(h.Counts)-1 {
					h.Max = min(h.Max, end-1)
				}
				break
			}
			if k == 0 {
				h.Max = 0
			}
		}
	}
	t.all.Merge(&h)
}

// within reports whether y may be x with more durations recorded.
func within(x, y *latency.Histogram) bool {
	for k, n := range x.Counts {
		if y.Counts[k] < n {
			return false
		}
	}
	return true
}

func (t *timesOf) percentiles() *Percentiles {
	if t.nodes == 0 {
		return nil
	}
	h := &t.all
	return &Percentiles{
		Nodes: t.nodes, Count: h.Count(), Mean: h.Mean(), Max: h.Max,
		P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), P999: h.Quantile(0.999),
	}
}
