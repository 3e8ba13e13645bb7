package report

import (
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Interval is the activity between two samples of the nodes of one target: a group or a list of NIDs.
type Interval struct {
	Name string `json:"name"`
	// Nodes is the number of nodes with counters in both samples. Failed is the number of all other nodes.
	Nodes  int `json:"nodes"`
	Failed int `json:"failed"`
	// Receive and Send count all LNet messages, not only those of tests.
	Receive Traffic `json:"receive"`
	Send    Traffic `json:"send"`
	RPC     RPCs    `json:"rpc"`
	// Latency contains the RPC durations of the nodes that are clients. It is nil if they are not known for
	// any node.
	Latency *Percentiles `json:"latency,omitempty"`
}

// Traffic is the traffic in one direction.
type Traffic struct {
	Rate      Figure `json:"rate"`      // messages per second
	Bandwidth Figure `json:"bandwidth"` // bytes per second
}

// RPCs contains rates and counts of RPCs. Sent, Received, and the bulk data that servers move are rates per
// second. Errors, Dropped and Expired are totals of all nodes.
type RPCs struct {
	Sent     Figure `json:"sent"`
	Received Figure `json:"received"`
	BulkGet  Figure `json:"bulk_get"` // bytes per second
	BulkPut  Figure `json:"bulk_put"` // bytes per second
	Errors   uint64 `json:"errors"`
	Dropped  uint64 `json:"dropped"`
	Expired  uint64 `json:"expired"`
}

// Figure summarizes a rate over all nodes: its average, minimum and maximum. Min is the smallest rate that is
// not 0.
type Figure struct {
	Avg float64 `json:"avg"`
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// add adds the rate v of a node. The caller must call done after the last node.
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

// Percentiles are percentiles of RPC durations.
type Percentiles struct {
	Nodes int           `json:"nodes"` // number of nodes whose RPC durations are known
	Count uint64        `json:"count"` // number of RPCs
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p999"`
	Max   time.Duration `json:"max"`
}

// Since returns the changes from an older sample to s, for each target (selftest 9). It returns
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

// add adds the changes of a node from sample x to sample y. A 32-bit counter may have wrapped around between
// them. The duration is measured by the node's clock.
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

// timesOf merges the RPC durations of the nodes of a target.
type timesOf struct {
	nodes int
	all   latency.Histogram
}

// add adds the durations that a node has recorded between samples x and y. If the tests have changed in
// between, it adds all durations of y. Either may be nil.
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
		// It is not known when the maximum was recorded, so use the upper end of the highest bucket that is
		// not empty.
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

// within reports whether y can be a later state of the same histogram as x.
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
