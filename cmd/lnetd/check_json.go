package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// checkedJSON prints the result of a check as an api.Check. The configuration c was loaded with the error invalid.
// It returns an error if lnetd could not start with the configuration on this host, even if another process only
// has one of its ports.
func (o *options) checkedJSON(stdout io.Writer, c *config.Config, invalid error) error {
	var found api.Check
	if invalid == nil {
		found = drivers(c).Precheck(o.from(c), c)
		if _, err := daemon.CheckWebConfig(c); err != nil && found.Fault == nil {
			found.Fault = api.FaultOf(err)
		}
	} else {
		found.Fault = api.FaultOf(invalid)
		var list config.Problems
		if errors.As(invalid, &list) {
			for _, p := range list {
				found.Fault.Problems = append(found.Fault.Problems, *p)
			}
		}
		for _, p := range drivers(c).Undriven(o.from(c), &c.State) {
			found.Undriven = append(found.Undriven, *p)
		}
	}
	found.File = o.file
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(found); err != nil {
		return err
	}
	if found.Fault != nil {
		return found.Fault
	}
	for _, p := range found.Ports {
		if !p.Fallback {
			return p.Fault
		}
	}
	return nil
}
