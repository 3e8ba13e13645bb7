package config

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/lnet"
)

// checkCPTs reads a list of CPU partitions as text, "[0,1-3]", or as a list
// (lnetctl 9.1). It binds nothing: lnetd's threads run where they like, so that
// partitions which this machine does not have are taken too.
func (p place) checkCPTs() {
	if p.node.Kind != yaml.SequenceNode {
		if s, ok := p.text(); ok {
			if err := checkCPTs(s); err != nil {
				p.wrong("%v", err)
			}
		}
		return
	}
	items := p.items()
	if len(items) == 0 {
		p.wrong("names no CPU partition")
	}
	for _, at := range items {
		at.checkCPTs()
	}
}

// checkCPTs says what is wrong with a list such as "[0,1]", "2" or "1,3".
func checkCPTs(s string) error {
	list := s
	if !strings.Contains(s, "[") && s != "*" {
		list = "[" + s + "]"
	}
	if _, err := lnet.ParseRangeExpr(list, math.MaxInt32); err != nil {
		return fmt.Errorf("%q: not a list of CPU partitions: %w", s, err)
	}
	return nil
}
