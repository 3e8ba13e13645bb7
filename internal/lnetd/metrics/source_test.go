package metrics

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/node"
)

// fakeSource is a Host with values that a test sets.
type fakeSource struct {
	counters node.Counters
	drops    node.DropCounts
	nis      []node.NIInfo
	peers    []node.PeerInfo
	peerNIs  node.PeerNIsInfo
	activity node.Activity
	routes   []node.RouteInfo
	routing  node.RoutingInfo
	clients  []clients.Total
	proxies  []proxies.Status
	waiting  []WaitingNI
	ports    []hostnet.RDMAPort
	selftest Selftest
	config   Configuration
	log      boundedlog.Stats
	silent   bool // discovery does not answer
}

var errSilent = errors.New("no answer")

func (s *fakeSource) Counters() node.Counters       { return s.counters }
func (s *fakeSource) Drops() node.DropCounts        { return s.drops }
func (s *fakeSource) WaitingNIs() []WaitingNI       { return s.waiting }
func (s *fakeSource) RDMAPorts() []hostnet.RDMAPort { return s.ports }
func (s *fakeSource) Selftest() Selftest            { return s.selftest }
func (s *fakeSource) Configuration() Configuration  { return s.config }
func (s *fakeSource) LogStats() boundedlog.Stats    { return s.log }
func (s *fakeSource) NIs() []node.NIInfo            { return s.nis }
func (s *fakeSource) PeerNIs() node.PeerNIsInfo     { return s.peerNIs }
func (s *fakeSource) ClientTotals() []clients.Total { return s.clients }
func (s *fakeSource) Proxies() []proxies.Status     { return s.proxies }
func (s *fakeSource) Routes() []node.RouteInfo      { return s.routes }
func (s *fakeSource) Routing() node.RoutingInfo     { return s.routing }

func (s *fakeSource) Activity(context.Context) (node.Activity, error) {
	if s.silent {
		return s.activity, errSilent
	}
	return s.activity, nil
}

func (s *fakeSource) PeersAfter(context.Context, discovery.PeerID) iter.Seq2[node.PeerInfo, error] {
	return func(yield func(node.PeerInfo, error) bool) {
		if s.silent {
			yield(node.PeerInfo{}, errSilent)
			return
		}
		for _, p := range s.peers {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func scrape(t *testing.T, s Source) string {
	t.Helper()
	return scrapeWith(t, s, Options{Version: "v1.2.3"})
}

func scrapeWith(t *testing.T, s Source, o Options) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(s, o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// latencies returns a histogram with some latencies.
func latencies(all ...time.Duration) (h node.LatencyHistogram) {
	for _, d := range all {
		k := 0
		for d.Seconds() > node.LatencyBound(k)*(1+1e-12) && k < node.LatencyBuckets-1 {
			k++
		}
		h.Counts[k]++
		h.Sum += d
		h.Max = max(h.Max, d)
	}
	return h
}

// nearly reports whether two values are equal except for rounding.
func nearly(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }
