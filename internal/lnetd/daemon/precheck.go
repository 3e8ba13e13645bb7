package daemon

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Precheck checks whether lnetd could start now on this host with the valid configuration c, whose NIs come from
// file. It listens briefly at the addresses of those NIs that are usable, so an lnetd that runs already is
// reported as the owner of its ports. It changes nothing.
func (t Drivers) Precheck(file string, c *config.Config) (found api.Check) {
	chooses := len(c.NIs) == 0 && !c.NeedsMachine()
	rules := ForeseeRules(file, c)
	rules = append(rules, ForeseeCPTs(file, &c.State, os.DirFS("/sys"))...)
	found.Warnings = problemsOf(slices.Concat(c.Warnings, rules))
	if _, refused := t.Foresee(file, &c.State, ""); len(refused) > 0 {
		found.Fault = api.FaultOf(RefusedFault(refused))
		found.Fault.Problems = problemsOf(refused)
	}
	nis := c.NIs
	if chooses {
		nis = []config.NI{{Net: lnet.MakeNet(lnet.TypeTCP, 0)}} // the net that lnetd chooses
	}
	for k := range nis {
		t.precheckNI(&nis[k], c.Drivers[nis[k].Net.Type()], &found)
	}
	return found
}

// precheckNI adds to found what would prevent the NI from coming up. The NI's driver has the options v.
func (t Drivers) precheckNI(ni *config.NI, v config.Values, found *api.Check) {
	d := t.of(ni.Net.Type())
	if d.Usable == nil {
		return
	}
	nid, _, err := d.Usable(ni)
	if err != nil {
		found.Waiting = append(found.Waiting, api.WaitingNI{Net: ni.Net, Interface: ni.Device, NID: ni.NID, Cause: causeOf(err)})
		return
	}
	if d.TryListen == nil || d.Explain == nil {
		return
	}
	err = d.TryListen(v, nid)
	if err == nil {
		return
	}
	fallback := d.Fallback != nil && d.Fallback(v, err, slog.New(slog.DiscardHandler)) != nil
	if explained := d.Explain(err); explained != nil {
		found.Ports = append(found.Ports, api.PortCheck{Fault: api.FaultOf(explained), Fallback: fallback})
	}
}

// tryListen listens at the ports at which an NI with the NID would listen, and stops at once.
func (t *tcp) tryListen(v config.Values, nid lnet.NID) error {
	c := tcpConfig(v)
	if c.Accept == socklnd.AcceptNone {
		return nil
	}
	at := netip.AddrPortFrom(nid.IP(), uint16(c.AcceptPort))
	l, err := t.network.Listen(at, 1)
	if err != nil {
		return &lnd.ListenError{Addr: at, Err: err}
	}
	return l.Close()
}
