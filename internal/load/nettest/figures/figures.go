package figures

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Counter counts attempts. Total is the number of all attempts. Failed is the number of those that ended
// with an error, and Bad the number of those that arrived with wrong content.
type Counter struct {
	Total  uint64 `json:"total"`
	Failed uint64 `json:"failed"`
	Bad    uint64 `json:"bad"`
}

func (c *Counter) add(o Counter) {
	c.Total += o.Total
	c.Failed += o.Failed
	c.Bad += o.Bad
}

// Counters are the counters of a node: messages, bulk buffers, and transfers.
type Counters struct {
	Sent         Counter `json:"sent"`
	Received     Counter `json:"received"`
	BulkSent     Counter `json:"bulk_sent"`
	BulkReceived Counter `json:"bulk_received"`
	Transfers    Counter `json:"transfers"`
}

// Figures are the counters and statistics of one or more nodes.
type Figures struct {
	Counters
	// BytesOut and BytesIn count the data of the test: messages of a ping test, bulk of a bulk test.
	BytesOut uint64 `json:"bytes_out"`
	BytesIn  uint64 `json:"bytes_in"`
	// SentRate and ReceivedRate are in messages per second. There is one sample per second.
	SentRate     Sums `json:"sent_rate"`
	ReceivedRate Sums `json:"received_rate"`
	// RTT has the statistics of round-trip times in nanoseconds. For a transfer, the time runs from
	// queueing the two buffers to the second final event. Latency is the histogram of the same times.
	RTT     Sums      `json:"rtt"`
	Latency Histogram `json:"latency"`
	// Finished reports whether the node has ended its part of the test.
	Finished bool `json:"finished"`
}

// Merge adds the figures of another node to f. Finished is then set if it was set in both.
func (f *Figures) Merge(o *Figures) {
	f.Sent.add(o.Sent)
	f.Received.add(o.Received)
	f.BulkSent.add(o.BulkSent)
	f.BulkReceived.add(o.BulkReceived)
	f.Transfers.add(o.Transfers)
	f.BytesOut += o.BytesOut
	f.BytesIn += o.BytesIn
	f.SentRate.Merge(&o.SentRate)
	f.ReceivedRate.Merge(&o.ReceivedRate)
	f.RTT.Merge(&o.RTT)
	f.Latency.Merge(&o.Latency.Histogram)
	f.Finished = f.Finished && o.Finished
}

// Total returns the sum of the figures of several nodes.
func Total(all []Figures) Figures {
	t := Figures{Finished: true}
	for k := range all {
		t.Merge(&all[k])
	}
	return t
}

// Failures returns the number of failed and bad attempts.
func (f *Figures) Failures() uint64 {
	var n uint64
	for _, c := range []Counter{f.Sent, f.Received, f.BulkSent, f.BulkReceived, f.Transfers} {
		n += c.Failed + c.Bad
	}
	return n
}

// Histogram is a latency.Histogram with a compact JSON form: the sum, the maximum, and number and count
// of each bucket that is not empty.
type Histogram struct{ latency.Histogram }

// histogramJSON is the JSON form of a Histogram. A bucket has a number and a count.
type histogramJSON struct {
	Sum     time.Duration `json:"sum"`
	Max     time.Duration `json:"max"`
	Buckets [][2]uint64   `json:"buckets"`
}

// MarshalJSON implements json.Marshaler.
func (h Histogram) MarshalJSON() ([]byte, error) {
	s := histogramJSON{Sum: h.Sum, Max: h.Max, Buckets: [][2]uint64{}}
	for k, n := range h.Counts {
		if n > 0 {
			s.Buckets = append(s.Buckets, [2]uint64{uint64(k), n})
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements json.Unmarshaler. It returns an error if a bucket number is out of range.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var s histogramJSON
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*h = Histogram{latency.Histogram{Sum: s.Sum, Max: s.Max}}
	for _, bucket := range s.Buckets {
		if bucket[0] >= latency.Buckets {
			return fmt.Errorf("figures: histogram: bucket %d is not within 0 to %d", bucket[0], latency.Buckets-1)
		}
		h.Counts[bucket[0]] += bucket[1]
	}
	return nil
}
