package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/node"
)

func (h *handlers) globals(context.Context, query) (api.Globals, *api.Fault) {
	return h.Backend.Globals(), nil
}

func (h *handlers) setGlobals(ctx context.Context, c *api.GlobalsChange) *api.Fault {
	var last *parameters.Parameter
	given := maps.Clone(c.Values)
	for _, p := range parameters.Settable() {
		v, ok := given[p.Name]
		if !ok {
			continue
		}
		if err := p.RequestRange().Check(v); err != nil {
			return globalFault(&p, fmt.Errorf("%s %w", p.Name, err))
		}
		delete(given, p.Name)
		last, c.Values[p.Name] = &p, p.Stored(v)
	}
	if unknown := slices.Sorted(maps.Keys(given)); len(unknown) > 0 {
		return invalidRequest(fmt.Sprintf("no parameter named %q can be set", unknown[0]), nil)
	}
	if last == nil {
		return invalidRequest("no parameter was given", nil)
	}
	err := h.Backend.SetGlobals(ctx, *c)
	if errors.Is(err, node.ErrInvalid) {
		return globalFault(last, err)
	}
	if err != nil {
		return describedError("cannot configure "+inWords(last.Name), api.CodeParameterInvalid, err)
	}
	return nil
}

// inWords returns a parameter's name as lnetctl's messages spell it, with spaces instead of underscores.
func inWords(name string) string { return strings.ReplaceAll(name, "_", " ") }

// globalFault returns the error of an invalid value of the parameter p, with lnetctl's message.
func globalFault(p *parameters.Parameter, err error) *api.Fault {
	f := api.Fault{
		Code: api.CodeParameterInvalid, Errno: -int(syscall.EINVAL), Text: p.Refusal,
		Remedy: "valid values of " + p.Name + ": " + p.Valid(),
	}
	if f.Text == "" {
		f.Errno = -int(syscall.ENODATA)
		f.Text = "cannot configure " + inWords(p.Name) + ": " + api.Strerror(syscall.EINVAL)
	}
	return f.Because(err)
}
