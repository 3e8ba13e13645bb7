package nettest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
)

// quantiles are the quantiles of round-trip times in reports.
var quantiles = []struct {
	name string
	of   float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}

// ProgressLine returns one line of text, without a newline, about the progress of a test (transport
// 10.3).
func ProgressLine(elapsed time.Duration, f *figures.Figures) string {
	seconds := max(elapsed.Seconds(), 1e-9)
	per := func(n uint64) string { return size(float64(n)/seconds) + "/s" }
	return fmt.Sprintf("avg out: %s avg in: %s total out: %s total in: %s avg RTT: %.0f us",
		per(f.BytesOut), per(f.BytesIn), size(float64(f.BytesOut)), size(float64(f.BytesIn)), f.RTT.Mean()/1e3)
}

// size formats a number of bytes with a unit.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	k := 0
	for ; n >= 1024 && k < len(units)-1; k++ {
		n /= 1024
	}
	return fmt.Sprintf("%.1f %s", n, units[k])
}

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	for _, g := range r.groups() {
		fmt.Fprintf(w, "%s total:\n", g.name)
		for _, c := range counters(g.figures) {
			fmt.Fprintf(w, "  %-22s total/failed/bad: %d/%d/%d\n", c.text, c.Total, c.Failed, c.Bad)
		}
		for _, s := range sums(g.figures) {
			fmt.Fprintf(w, "  %-22s count/min/max/avg/stddev: %d/%d/%d/%.2f/%.2f\n",
				s.text, s.Count, s.Min, s.Max, s.Mean(), s.Deviation())
		}
		if g.figures.RTT.Count > 0 {
			var names, values []string
			for _, q := range quantiles {
				names = append(names, q.name)
				values = append(values, fmt.Sprint(g.figures.Latency.Quantile(q.of).Nanoseconds()))
			}
			fmt.Fprintf(w, "  %-22s %s: %s\n", "round trip (ns)", strings.Join(names, "/"), strings.Join(values, "/"))
		}
	}
}

// WriteParsable prints the result for programs, one line per group.
func (r *Result) WriteParsable(w io.Writer) {
	for _, g := range r.groups() {
		fmt.Fprint(w, g.name)
		for _, c := range counters(g.figures) {
			fmt.Fprintf(w, " %[1]s_total %[2]d %[1]s_failed %[3]d %[1]s_bad %[4]d", c.name, c.Total, c.Failed, c.Bad)
		}
		for _, s := range sums(g.figures) {
			fmt.Fprintf(w, " %[1]s_count %[2]d %[1]s_min %[3]d %[1]s_max %[4]d %[1]s_avg %.2[5]f %[1]s_stddev %.2[6]f",
				s.name, s.Count, s.Min, s.Max, s.Mean(), s.Deviation())
		}
		for _, q := range quantiles {
			fmt.Fprintf(w, " rtt_%s %d", q.name, g.figures.Latency.Quantile(q.of).Nanoseconds())
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "time_start = %d\ntime_finish = %d\n", r.Start.UnixNano(), r.Finish.UnixNano())
}

type group struct {
	name    string
	figures *figures.Figures
}

func (r *Result) groups() []group { return []group{{"clients", &r.Clients}, {"servers", &r.Servers}} }

type counter struct {
	name, text string
	figures.Counter
}

func counters(f *figures.Figures) []counter {
	return []counter{
		{"sent", "messages sent", f.Sent}, {"received", "messages received", f.Received},
		{"bulk_sent", "bulk sent", f.BulkSent}, {"bulk_received", "bulk received", f.BulkReceived},
		{"transfers", "transfers", f.Transfers},
	}
}

type series struct {
	name, text string
	*figures.Sums
}

func sums(f *figures.Figures) []series {
	return []series{
		{"mps_sent", "messages/s sent", &f.SentRate}, {"mps_received", "messages/s received", &f.ReceivedRate},
		{"rtt", "round trip (ns)", &f.RTT},
	}
}

// Document is the JSON form of a result, for programs. It includes averages and percentiles.
type Document struct {
	Start   time.Time     `json:"time_start"`
	Finish  time.Time     `json:"time_finish"`
	Clients GroupDocument `json:"clients"`
	Servers GroupDocument `json:"servers"`
	// Error is the reason why the test did not complete. It is empty if the test did.
	Error string `json:"error,omitempty"`
}

// GroupDocument has the sums of the nodes of one role.
type GroupDocument struct {
	figures.Counters
	BytesOut uint64 `json:"bytes_out"`
	BytesIn  uint64 `json:"bytes_in"`
	// Rates are in messages per second, RTT in nanoseconds.
	SentRate     SeriesDocument `json:"mps_sent"`
	ReceivedRate SeriesDocument `json:"mps_received"`
	RTT          SeriesDocument `json:"rtt_ns"`
	// Percentiles are the percentiles of round-trip times in nanoseconds. They are at most an eighth too
	// long.
	Percentiles map[string]int64 `json:"rtt_percentiles_ns"`
}

// SeriesDocument has the statistics of a series of samples.
type SeriesDocument struct {
	Count     uint64  `json:"count"`
	Min       uint64  `json:"min"`
	Max       uint64  `json:"max"`
	Mean      float64 `json:"avg"`
	Deviation float64 `json:"stddev"`
}

// Document returns the JSON form of the result. err is the reason why the test did not complete, or nil.
func (r *Result) Document(err error) Document {
	d := Document{Start: r.Start, Finish: r.Finish, Clients: document(&r.Clients), Servers: document(&r.Servers)}
	if err != nil {
		d.Error = err.Error()
	}
	return d
}

func document(f *figures.Figures) GroupDocument {
	of := func(s *figures.Sums) SeriesDocument {
		return SeriesDocument{Count: s.Count, Min: s.Min, Max: s.Max, Mean: s.Mean(), Deviation: s.Deviation()}
	}
	d := GroupDocument{
		Counters: f.Counters, BytesOut: f.BytesOut, BytesIn: f.BytesIn,
		SentRate: of(&f.SentRate), ReceivedRate: of(&f.ReceivedRate), RTT: of(&f.RTT), Percentiles: map[string]int64{},
	}
	for _, q := range quantiles {
		d.Percentiles[q.name] = f.Latency.Quantile(q.of).Nanoseconds()
	}
	return d
}
