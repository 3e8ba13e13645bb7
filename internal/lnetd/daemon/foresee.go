package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Foresee checks what lnetd would do now on this host with the NIs and routes of s, which was read
// from file. The list waits has NIs whose interface is not usable, each with the given remedy, and
// routes that would be ignored. The list refused has NIs that would be rejected. Foresee changes
// nothing, and ignores "ip2nets" rules.
func (t Drivers) Foresee(file string, s *config.State, remedy string) (waits, refused config.Problems) {
	waits, refused = t.foresee(file, s, nil, remedy)
	return waits, append(refused, t.twice(file, s.NIs)...)
}

// RefusedFault returns the error of a configuration with NIs that this host cannot have. The problems
// refused, which Foresee returned, are its cause.
func RefusedFault(refused config.Problems) error {
	return api.Fault{
		Code: api.CodeConfigInvalid, Text: "the configuration has errors", Remedy: "see the NIDs and interfaces of this machine with: ip addr",
	}.Because(refused)
}

// twice returns a problem for each NI that has the same interface or NID as an earlier NI on the same
// net. It also finds NIs that are configured by different names, for example one by its device and one
// by its NID. If file is empty, the file's name is taken from the position of the NI.
func (t Drivers) twice(file string, nis []config.NI) (refused config.Problems) {
	var up []localNI
	for k := range nis {
		ni := &nis[k]
		d := t.of(ni.Net.Type())
		if d.Usable == nil {
			continue
		}
		nid, device, err := d.Usable(ni)
		if err != nil {
			continue // without a usable interface, the NID and the device are unknown
		}
		other := slices.IndexFunc(up, func(o localNI) bool { return o.Net == ni.Net && (o.device == device || o.Own == nid) })
		if other >= 0 {
			name := file
			if name == "" {
				name, _, _ = strings.Cut(ni.Where, ":")
			}
			there := thereIs(&up[other].NI, nil)
			if up[other].Device == "" {
				there += ", on " + up[other].device
			}
			refused = append(refused, config.ProblemAt(name, ni.Where, fmt.Sprintf("NI %s cannot be brought up: %s", ni, there),
				"a net can have each interface and each NID only once: remove one of the two, or use another net for one of them"))
		}
		l := localNI{NI: *ni, device: device}
		l.Own = nid
		up = append(up, l)
	}
	return refused
}

// mismatchRemedy tells the operator what to do if "ip2nets" selects an interface because of the
// address of another interface.
const mismatchRemedy = "write that interface, or use the section \"ip2nets\", whose rules apply to interfaces"

// ForeseeRules resolves the "ip2nets" rules of c, which was read from file, for this host, and stores
// the result in c. It returns warnings if no rule matches an interface of this host, or if a rule
// selects an interface because of the address of another one.
func ForeseeRules(file string, c *config.Config) (waits config.Problems) {
	machine, err := hostInterfaces()
	if err != nil || !c.NeedsMachine() {
		return nil
	}
	return foreseeRules(file, c, machine)
}

// foreseeRules is ForeseeRules for a host with the interfaces in machine.
func foreseeRules(file string, c *config.Config, machine []config.Interface) (waits config.Problems) {
	for _, text := range c.Site.Mismatches(machine) {
		waits = append(waits, config.ProblemAt(file, c.Site.Where, text, mismatchRemedy))
	}
	s, err := c.Settle(machine)
	if fitsNothing(err) {
		waits = append(waits, config.ProblemAt(file, c.Site.Where, noRules+": "+err.Error(), rulesWait))
	}
	if err == nil || fitsNothing(err) {
		c.State = s
	}
	return waits
}

// foresee is like Foresee for a running node that already has the NIs in there. It does not report
// an NI of the node whose interface is missing, and does not look for duplicate NIs.
func (t Drivers) foresee(file string, s *config.State, there []config.NI, remedy string) (waits, refused config.Problems) {
	known := slices.Clone(s.NIs)
	for k := range known {
		ni := &known[k]
		isThere := slices.ContainsFunc(there, func(o config.NI) bool { return ni.Names(&o) })
		d := t.of(ni.Net.Type())
		if d.Usable == nil {
			continue
		}
		nid, _, err := d.Usable(ni)
		switch {
		case err != nil && isThere:
			continue
		case isNoDriver(err):
			refused = append(refused, undriven(file, ni))
			continue
		case err != nil:
			waits = append(waits, config.ProblemAt(file, ni.Where, fmt.Sprintf("NI %s cannot be brought up now: %s", ni, causeOf(err)), remedy))
			continue
		}
		ni.Own = nid
	}
	routes := config.State{NIs: known, Routes: s.Routes}
	routes.LeaveRoutes(func(r *config.Route, why string) {
		if len(s.NIs) == 0 && r.Gateway.Net() != r.Net {
			return // lnetd chooses an NI, or "ip2nets" rules provide NIs, so the net may become local
		}
		waits = append(waits, config.ProblemAt(file, r.Where, fmt.Sprintf("the route to %s through %s is ignored: %s", r.Net, r.Gateway, why), ""))
	})
	return waits, refused
}
