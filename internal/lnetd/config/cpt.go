package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/lnet"
)

// cptMax is the greatest number of a CPU partition that this package accepts. It does not check whether
// the host has the partition.
const cptMax = 4095

// ParseCPTs parses a list of CPU partitions such as "[0,2-3]", "0,2" or "1". For "*" it returns nil,
// which means all partitions (lnetctl 9.1, 12.1). The result is sorted and has no duplicates.
func ParseCPTs(s string) ([]int, error) {
	list := strings.TrimSpace(s)
	if list == "*" {
		return nil, nil
	}
	if !strings.Contains(list, "[") {
		list = "[" + list + "]"
	}
	expr, err := lnet.ParseRangeExpr(list, cptMax)
	if err != nil {
		if field := (*lnet.FieldError)(nil); errors.As(err, &field) {
			err = field.Err
		}
		return nil, fmt.Errorf("Unable to parse CPT '%s': %w", s, err) //nolint:staticcheck // the reference's word (lnetctl 9.1)
	}
	return cptsOf(expr)
}

// cptsOf returns the numbers that an expression stands for, sorted and without duplicates. For "*" it
// returns nil, which means all CPU partitions.
func cptsOf(expr lnet.RangeExpr) ([]int, error) {
	var cpts []int
	for _, r := range expr {
		if r == (lnet.Range{Lo: 0, Hi: math.MaxUint32, Stride: 1}) {
			return nil, nil // the expression is "*"
		}
		if r.Hi > cptMax {
			return nil, fmt.Errorf("Unable to parse CPT '%d': not in 0 to %d", r.Hi, cptMax) //nolint:staticcheck // as above
		}
		for n := r.Lo; n <= r.Hi; n += max(r.Stride, 1) {
			cpts = append(cpts, int(n))
		}
	}
	slices.Sort(cpts)
	return slices.Compact(cpts), nil
}

// cpts parses the value as a list of CPU partitions: a text that ParseCPTs accepts, or a YAML list of
// such texts. It returns false if it has reported a problem.
func (p place) cpts() ([]int, bool) {
	if p.node.Kind != yaml.SequenceNode {
		s, ok := p.textOf(cptText)
		if !ok {
			return nil, false
		}
		cpts, err := ParseCPTs(s)
		if err != nil {
			p.reportInvalid(err, cptText)
		}
		return cpts, err == nil
	}
	var all []int
	items := p.items()
	for _, at := range items {
		cpts, ok := at.cpts()
		if !ok {
			return nil, false
		}
		all = append(all, cpts...)
	}
	if len(items) == 0 {
		p.reportInvalid(fmt.Errorf("Unable to parse CPT '[]': no number"), cptText) //nolint:staticcheck // as above
		return nil, false
	}
	slices.Sort(all)
	return slices.Compact(all), true
}
