package metrics

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// family is a metric name with its type, its help text and the names of its labels. Because dashboards and
// alerts depend on these, docs/metrics.md lists all families, and a test keeps the list complete.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	order      []int // the indexes of labels, in the order of the labels' names
}

func newFamily(kind dto.MetricType, name, help string, labels []string) *family {
	f := &family{name: name, help: help, kind: kind, labels: labels}
	for k := range labels {
		f.order = append(f.order, k)
	}
	slices.SortFunc(f.order, func(a, b int) int { return cmp.Compare(labels[a], labels[b]) })
	return f
}

// gaugeFamily returns a new family of gauges. A test finds the families for docs/metrics.md by the calls of
// gaugeFamily, counterFamily and histogramFamily in the source.
func gaugeFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_GAUGE, name, help, labels)
}

func counterFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_COUNTER, name, help, labels)
}

func histogramFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_HISTOGRAM, name, help, labels)
}

// pairs returns the labels of the family with the given values, which are in the order of f.labels. The
// result is sorted by name, as Prometheus requires, and refers to the slice values.
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
