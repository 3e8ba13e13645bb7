package metrics

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// family is a name that metrics have, with what all of them share. Families are the
// interface to dashboards and alerts: docs/metrics.md lists them, and a test holds it.
type family struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	order      []int // of labels, by name
}

func newFamily(kind dto.MetricType, name, help string, labels []string) *family {
	f := &family{name: name, help: help, kind: kind, labels: labels}
	for k := range labels {
		f.order = append(f.order, k)
	}
	slices.SortFunc(f.order, func(a, b int) int { return cmp.Compare(labels[a], labels[b]) })
	return f
}

// gaugeFamily, counterFamily and histogramFamily make families; the test of the page
// looks for their calls.
func gaugeFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_GAUGE, name, help, labels)
}

func counterFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_COUNTER, name, help, labels)
}

func histogramFamily(name, help string, labels ...string) *family {
	return newFamily(dto.MetricType_HISTOGRAM, name, help, labels)
}

// pairs are the family's labels with values, sorted by name as they have to be.
func (f *family) pairs(values []string) []*dto.LabelPair {
	if len(values) != len(f.labels) {
		panic("metrics: " + f.name + ": labels without a value")
	}
	pairs := make([]*dto.LabelPair, len(values))
	for k, at := range f.order {
		values[at] = strings.ToValidUTF8(values[at], "?") // else nothing at all could be shown
		pairs[k] = &dto.LabelPair{Name: &f.labels[at], Value: &values[at]}
	}
	return pairs
}
