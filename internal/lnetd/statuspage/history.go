package statuspage

import (
	"math"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// samplePause is the time between two samples.
	samplePause = 5 * time.Second
	// samplesMost is the number of samples that are kept: those of five minutes, and one before.
	samplesMost = 61
)

// figures are counters of an NI, or their sums.
type figures struct{ messages, bytes uint64 }

// sample holds the counters of all NIs at one time.
type sample struct {
	at  time.Time
	nis map[lnet.NID]figures
}

// history holds the last samples. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	samples []sample // the oldest one first
}

// add adds a sample and discards the oldest one if there are too many.
func (h *history) add(at time.Time, nets []api.Net) {
	s := sample{at: at, nis: map[lnet.NID]figures{}}
	for _, net := range nets {
		for k := range net.NIs {
			n := &net.NIs[k]
			if n.NID.IsLoopback() {
				continue
			}
			f := figures{messages: n.Statistics.Sent + n.Statistics.Received}
			for _, c := range n.Counters {
				if c.Name == "sent_bytes_total" || c.Name == "received_bytes_total" {
					f.bytes += c.Value
				}
			}
			s.nis[n.NID] = f
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) == samplesMost {
		h.samples = append(h.samples[:0], h.samples[1:]...)
	}
	h.samples = append(h.samples, s)
}

// rates are rates per second between successive samples, the oldest one first. A rate that is not known is NaN.
type rates struct{ messages, bytes []float64 }

// of returns the rates of an NI. If the zero NID is given, it returns the sums over all NIs.
func (h *history) of(nid lnet.NID) (r rates) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := 1; k < len(h.samples); k++ {
		before, now := &h.samples[k-1], &h.samples[k]
		seconds := now.at.Sub(before.at).Seconds()
		var messages, bytes float64
		if nid.IsZero() {
			for nid := range now.nis {
				m, b := growth(before, now, nid)
				if !math.IsNaN(m) {
					messages, bytes = messages+m, bytes+b
				}
			}
		} else {
			messages, bytes = growth(before, now, nid)
		}
		r.messages = append(r.messages, messages/seconds)
		r.bytes = append(r.bytes, bytes/seconds)
	}
	return r
}

// growth returns by how much the counters of an NI have grown between two samples. It returns NaN if the NI is new, or
// if its counters were reset.
func growth(before, now *sample, nid lnet.NID) (messages, bytes float64) {
	b, ok := before.nis[nid]
	n, ok2 := now.nis[nid]
	if !ok || !ok2 || n.messages < b.messages || n.bytes < b.bytes {
		return math.NaN(), math.NaN()
	}
	return float64(n.messages - b.messages), float64(n.bytes - b.bytes)
}
