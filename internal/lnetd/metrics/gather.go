package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// collectTimeout is the timeout for reading the peers and the activity of discovery. If discovery does not
// answer in this time, the scrape returns only the other metrics.
const collectTimeout = 5 * time.Second

var (
	collectTime     = gaugeFamily("lnetd_collect_seconds", "Duration of reading the counters for this scrape.")
	collectComplete = gaugeFamily("lnetd_collect_complete", "0 if peers are missing from this scrape because discovery did not answer in time, otherwise 1.")
)

// gatherer is a prometheus.Gatherer that reads the metrics of a Source.
type gatherer struct {
	source  Source
	options Options
	// process collects the metrics of the process and the Go runtime.
	process *prometheus.Registry
	refused func() uint64 // returns the number of scrapes that were refused
	drivers *driverFamilies
	others  otherPeers
}

func newGatherer(s Source, o Options, refused func() uint64) *gatherer {
	g := &gatherer{source: s, options: o, process: prometheus.NewRegistry(), refused: refused, drivers: new(driverFamilies)}
	g.process.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return g
}

// Gather implements prometheus.Gatherer.
func (g *gatherer) Gather() ([]*dto.MetricFamily, error) {
	list, err := g.process.Gather()
	return byName(append(list, g.own(newPage())...)), err
}

// pagedGatherer is a prometheus.TransactionalGatherer. Unlike gatherer, it reuses the memory of earlier
// scrapes.
type pagedGatherer struct {
	*gatherer
	pages *sync.Pool // of *page
}

// Gather implements prometheus.TransactionalGatherer. The result is valid until done is called.
func (t pagedGatherer) Gather() (list []*dto.MetricFamily, done func(), err error) {
	p, _ := t.pages.Get().(*page)
	if p == nil {
		p = newPage()
	}
	list, err = t.process.Gather()
	list = byName(append(list, t.own(p)...))
	return list, func() { p.reset(); t.pages.Put(p) }, err
}

// own collects all metrics of this package on the page p, which must be empty, and returns their families.
func (g *gatherer) own(p *page) []*dto.MetricFamily {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	s := g.source
	counters, nis := s.Counters(), s.NIs()
	collectNode(p, &counters, s.Drops())
	w := waiting{}
	for k := range nis {
		collectNI(p, &nis[k], &w, g.drivers)
	}
	peers := collectPeers(ctx, p, s, g.options.peersMax(), &w, &g.others)
	discovery := collectActivity(ctx, p, s, &w)
	collectRoutes(p, s.Routes())
	collectRouter(p, s.Routing(), &w)
	w.collect(p)
	if h, ok := s.(Host); ok {
		collectWaitingNIs(p, h.WaitingNIs())
		collectRDMAPorts(p, h.RDMAPorts())
		collectClients(p, h.ClientTotals())
		collectProxies(p, h.Proxies())
		collectSelftest(p, h.Selftest())
		collectConfiguration(p, h.Configuration())
		collectLog(p, h.LogStats())
	}
	collectBuild(p, g.options.Version, g.options.Revision)
	p.count(scrapesRefused, g.refused())
	if g.options.LustreCompat {
		collectLustre(p, &counters, nis)
	}
	p.set(collectComplete, bit(peers && discovery))
	p.set(collectTime, time.Since(begun).Seconds())
	return p.all()
}
