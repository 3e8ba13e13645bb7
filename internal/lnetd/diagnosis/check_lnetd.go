package diagnosis

import (
	"fmt"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// reachable finds out why lnetd does not answer.
func reachable(f *Facts) []Finding {
	u := f.Unreachable
	if u == nil {
		return nil
	}
	code := NoAnswer
	switch {
	case f.NotRunning():
		code = NotRunning
	case u.Code == api.CodeDaemonUnreachable:
		code = NoAccess
	}
	evidence := u.Text
	if u.Cause != "" {
		evidence += ": " + u.Cause
	}
	remedy := ""
	if code == NoAccess {
		remedy = u.Remedy
	}
	return []Finding{find(code, "lnetd", evidence, remedy)}
}

// NotRunning reports whether no process listens on the control socket.
func (f *Facts) NotRunning() bool {
	u := f.Unreachable
	if u == nil || u.Code != api.CodeDaemonUnreachable {
		return false
	}
	const permission, access = -1, -13 // of a socket that exists and cannot be used
	return u.Errno != permission && u.Errno != access
}

// startable finds out what would prevent a start of lnetd.
func startable(f *Facts) (found []Finding) {
	s := f.Start
	switch {
	case s == nil:
		return nil
	case s.Check == nil:
		return []Finding{find(ProgramAbsent, "lnetd", s.Error, "")}
	}
	c := s.Check
	file := c.File
	if file == "" {
		file = "the default configuration"
	}
	for k := range c.Undriven {
		p := &c.Undriven[k]
		found = append(found, find(DriverAbsent, file, place(p)+p.Text, p.Remedy))
	}
	if c.Fault != nil && len(c.Undriven) == 0 {
		found = append(found, rejected(file, c.Fault)...)
	}
	for k := range c.Warnings {
		p := &c.Warnings[k]
		found = append(found, find(ConfigSuspicious, file, place(p)+p.Text, p.Remedy))
	}
	for _, p := range c.Ports {
		found = append(found, port(&p))
	}
	return found
}

// rejected returns a finding for each error in a configuration, or for the fault itself.
func rejected(file string, f *api.Fault) (found []Finding) {
	for k := range f.Problems {
		if p := &f.Problems[k]; !p.Warning {
			found = append(found, find(ConfigRejected, file, place(p)+p.Text, p.Remedy))
		}
	}
	if len(found) == 0 {
		found = append(found, find(ConfigRejected, file, f.Text+": "+f.Cause, f.Remedy))
	}
	return found
}

// place returns the position of a problem in its file as the beginning of a text.
func place(p *api.Problem) string {
	s := ""
	if p.Line > 0 {
		s = fmt.Sprintf("line %d: ", p.Line)
	}
	if p.Key != "" {
		s += p.Key + ": "
	}
	return s
}

func port(p *api.PortCheck) Finding {
	code := PortForbidden
	switch {
	case p.Fault.Code == api.CodePortInUse:
		code = PortInUse
	case p.Fallback:
		code = PortFallback
	}
	evidence := p.Fault.Text
	if code == PortInUse {
		evidence += ": " + p.Fault.Cause
	}
	return find(code, "port", evidence, p.Fault.Remedy)
}

func unconfigured(f *Facts) []Finding {
	if f.Node == nil || !f.Node.Down {
		return nil
	}
	return []Finding{find(Unconfigured, "LNet", "lnetd answers that the network is down", "")}
}

// stuck finds internal loops of the node that make no progress.
func stuck(f *Facts) []Finding {
	if f.Stuck == "" {
		return nil
	}
	return []Finding{find(NodeStuck, "lnetd", "no progress in: "+f.Stuck, "")}
}
