package metrics

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// family is a metric name with its type, help and labels. Dashboards and alerts depend on families:
// docs/metrics.md lists them, and a test keeps the list complete.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	order      []int // indexes of labels, sorted by name
}

func newFamily(kind dto.MetricType, name, help string, labels []string) *family {
	f := &family{name: name, help: help, kind: kind, labels: labels}
	for k := range labels {
		f.order = append(f.order, k)
	}
	slices.SortFunc(f.order, func(a, b int) int { return cmp.Compare(labels[a], labels[b]) })
	return f
}

// gaugeFamily, counterFamily and histogramFamily create families. The test of docs/metrics.md looks
// for calls of them.
func gaugeFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_GAUGE, name, help, labels)
}

func counterFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_COUNTER, name, help, labels)
}

func histogramFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_HISTOGRAM, name, help, labels)
}

// pairs returns the family's labels with the given values, sorted by name as Prometheus requires.
func (f *family) pairs(values []string) []*dto.LabelPair {
	if len(values) != len(f.labels) {
		panic("metrics: " + f.name + ": labels without a value")
	}
	pairs := make([]*dto.LabelPair, len(values))
	for k, at := range f.order {
		values[at] = strings.ToValidUTF8(values[at], "?") // invalid UTF-8 would make the whole scrape fail
		pairs[k] = &dto.LabelPair{Name: &f.labels[at], Value: &values[at]}
	}
	return pairs
}
