package daemon

import (
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/metrics"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// watched collects the metrics of lnetd from its parts. It implements metrics.Host.
type watched struct {
	*nodeTask
	guests   *clientsTask
	proxies  *proxiesTask
	selftest *selftestTask
	reloads  *reloadRecord
	rdma     *hostnet.RDMA
	log      *boundedlog.Log
}

// ClientTotals implements metrics.Host.
func (w watched) ClientTotals() []clients.Total {
	if s := w.guests.server.Load(); s != nil {
		return s.Totals()
	}
	return nil
}

// Proxies implements metrics.Host.
func (w watched) Proxies() []uplnd.Status { return w.proxies.server.Proxies() }

// WaitingNIs implements metrics.Host.
func (w watched) WaitingNIs() (list []metrics.WaitingNI) {
	for _, n := range w.engines.waiting() {
		list = append(list, metrics.WaitingNI{Net: n.Net, NI: n.String()})
	}
	return list
}

// RDMAPorts implements metrics.Host.
func (w watched) RDMAPorts() []hostnet.RDMAPort {
	var netdevs []string
	for _, ni := range w.NIs() {
		if ni.Net.Type() == lnet.TypeO2IB {
			netdevs = append(netdevs, ni.Device)
		}
	}
	return w.rdma.Ports(netdevs)
}

// Selftest implements metrics.Host.
func (w watched) Selftest() metrics.Selftest { return w.selftest.figures() }

// Configuration implements metrics.Host.
func (w watched) Configuration() metrics.Configuration { return w.reloads.get() }

// LogStats implements metrics.Host.
func (w watched) LogStats() boundedlog.Stats { return w.log.Stats() }

// figures returns the metrics of LNet selftest. They are zero if selftest is not enabled.
func (t *selftestTask) figures() (f metrics.Selftest) {
	t.mu.Lock()
	a, c, ending := t.agent, t.console, t.ending
	t.mu.Unlock()
	if a == nil || ending {
		return f
	}
	f.Enabled, f.RPCs = true, a.Counters()
	_, err := c.ShowSession()
	f.Console = err == nil
	s, ok := a.Session()
	if !ok {
		return f
	}
	f.Node, f.BRWErrors, f.PingErrors = true, s.BRWErrors, s.PingErrors
	for _, b := range s.Batches {
		for k := range b.Tests {
			if test := &b.Tests[k]; test.Client {
				f.Clients++
				f.Units += test.Active
			} else {
				f.Servers++
			}
		}
	}
	return f
}
