package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

const recoveryInterval = 1

// globalTexts are lnetctl's error texts for invalid values. For other parameters lnetctl prints
// that it cannot configure them.
var globalTexts = map[string]string{
	"response_tracking":          "Valid values are: 0, 1, 2, or 3",
	"recovery_limit":             "Must be greater than or equal to 0",
	"max_recovery_ping_interval": "must be strictly positive",
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
		if err := api.GlobalRange(v.Name).Check(v.Value); err != nil {
			return globalFault(v.Name, fmt.Errorf("%s %w", v.Name, err))
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

// inWords returns a parameter's name as lnetctl's texts spell it.
func inWords(name string) string { return strings.ReplaceAll(name, "_", " ") }

// globalFault returns the error of an invalid value with lnetctl's text. Some parameters have their
// own texts.
func globalFault(name string, err error) *api.Fault {
	f := api.Fault{
		Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: globalTexts[name],
		Remedy: "valid values of " + name + ": " + api.ValidGlobal(name),
	}
	if f.Text == "" {
		f.Errno = -int(syscall.ENODATA)
		f.Text = "cannot configure " + inWords(name) + ": " + api.Strerror(syscall.EINVAL)
	}
	return f.Because(err)
}
