package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

const (
	longestSeconds       = math.MaxInt32
	recoveryInterval     = 1
	routerSensitivityMax = 100 // percent
)

// globalRange is what a parameter may be.
type globalRange struct {
	min, max int64
	// invalid is lnetctl's text about another value; empty: that it cannot
	// configure it.
	invalid string
}

const notNegative = "Must be greater than or equal to 0"

// globalRanges are those of the parameters that can be set.
var globalRanges = map[string]globalRange{
	"numa_range":                 {max: math.MaxUint32},
	"max_interfaces":             {min: math.MinInt64, max: math.MaxInt32},
	"discovery":                  {min: math.MinInt64, max: math.MaxInt64},
	"drop_asym_route":            {min: math.MinInt64, max: math.MaxInt64},
	"retry_count":                {max: longestSeconds},
	"transaction_timeout":        {min: 1, max: longestSeconds},
	"health_sensitivity":         {max: node.MaxHealth},
	"recovery_interval":          {min: math.MinInt64, max: math.MaxInt64},
	"router_sensitivity":         {max: routerSensitivityMax},
	"response_tracking":          {max: int64(node.TrackAll), invalid: "Valid values are: 0, 1, 2, or 3"},
	"recovery_limit":             {max: longestSeconds, invalid: notNegative},
	"max_recovery_ping_interval": {min: 1, max: longestSeconds, invalid: "must be strictly positive"},
}

func (h *handlers) globals(context.Context, query) (api.Globals, *api.Fault) {
	g := h.Backend.Globals()
	g.RecoveryInterval = recoveryInterval
	return g, nil
}

func (h *handlers) setGlobals(ctx context.Context, c *api.GlobalsChange) *api.Fault {
	named := ""
	for _, v := range c.Values() {
		named = v.Name
		if r := globalRanges[v.Name]; v.Value < r.min || v.Value > r.max {
			return globalFault(v.Name, fmt.Errorf("%s %d is not within %d to %d", v.Name, v.Value, r.min, r.max))
		}
	}
	if named == "" {
		return invalidRequest("no parameter is given", nil)
	}
	if n := c.MaxInterfaces; n != nil && *n < lnet.InterfacesMin {
		*n = lnet.InterfacesMax
	}
	for _, word := range []*int64{c.Discovery, c.DropAsymRoute} {
		if word != nil && *word != 0 {
			*word = 1
		}
	}
	c.RecoveryInterval = nil
	err := h.Backend.SetGlobals(ctx, *c)
	if errors.Is(err, node.ErrInvalid) {
		return globalFault(named, err)
	}
	if err != nil {
		return worded("cannot configure "+inWords(named), api.CodeParameterInvalid, err)
	}
	return nil
}

// inWords is a parameter's name as lnetctl's texts have it.
func inWords(name string) string { return strings.ReplaceAll(name, "_", " ") }

// globalFault says in lnetctl's words that a parameter cannot have a value; some
// have errors of their own.
func globalFault(name string, err error) *api.Fault {
	f := api.Fault{
		Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: globalRanges[name].invalid,
		Remedy: "valid values of " + name + ": " + api.ValidGlobal(name),
	}
	if f.Text == "" {
		f.Errno = -int(syscall.ENODATA)
		f.Text = "cannot configure " + inWords(name) + ": " + api.Strerror(syscall.EINVAL)
	}
	return f.Because(err)
}
