package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// pair is a node that has very many peers with two NIDs each, and sends PUTs to another node. Each
// ACK starts the next PUT.
type pair struct {
	from, to *node.Node
	target   lnet.ProcessID
	handles  []lnet.Handle

	left atomic.Int64 // PUTs to start; below 0 when all are complete
	open atomic.Int64 // PUTs in progress
	done chan struct{}
	err  atomic.Pointer[error]
}

func newPair(tb testing.TB, peers, window int) *pair {
	tb.Helper()
	fabric := simlnd.New(simlnd.Config{})
	tb.Cleanup(fabric.Close)
	x := &pair{}
	nets := []lnet.Net{lnet.MakeNet(lnet.TypeTCP, 0), lnet.MakeNet(lnet.TypeTCP, 1)}
	for k, n := range []**node.Node{&x.from, &x.to} {
		made, err := node.New(node.Config{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = made.Close(context.Background()) })
		*n = made
		for r, of := range nets {
			address := netip.AddrFrom4([4]byte{10, 255, byte(r), byte(k + 1)})
			config := socklnd.DefaultConfig()
			config.Tunables.PeerCredits = window
			d, err := simlnd.NewDriver(fabric.Host(fmt.Sprint("host", k, r), address.String()), config)
			if err != nil {
				tb.Fatal(err)
			}
			nid := lnet.NIDFromIP(of, address)
			if _, err := made.AddNI(tb.Context(), d, lnd.Config{Net: of, NID: nid}); err != nil {
				tb.Fatal(err)
			}
			if r == 0 {
				x.target = lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
			}
		}
	}
	for k := range peers {
		var nids []lnet.NID
		for r, of := range nets {
			nids = append(nids, lnet.NIDFromIP(of, netip.AddrFrom4([4]byte{10, byte(r), byte(k >> 8), byte(k)})))
		}
		if err := x.from.Admin().ConfigurePeer(tb.Context(), nids[0], nids[1:], discovery.ConfigureOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	_, err := x.to.Attach(portals.Entry{Portal: 1}, portals.MD{
		Bytes: make([]byte, 4096), Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote | portals.Truncate,
		Handler: portals.HandlerFunc(func(*portals.Event) {}),
	})
	if err != nil {
		tb.Fatal(err)
	}
	for range window {
		h, err := x.from.Bind(portals.MD{Bytes: make([]byte, 64), Threshold: portals.Unlimited, Handler: x})
		if err != nil {
			tb.Fatal(err)
		}
		x.handles = append(x.handles, h)
	}
	x.run(tb, 1000)
	return x
}

// run performs n PUTs.
func (x *pair) run(tb testing.TB, n int64) {
	tb.Helper()
	x.start(n)
	<-x.done
	if err := x.err.Load(); err != nil {
		tb.Fatal(*err)
	}
}

func (x *pair) start(n int64) {
	x.done = make(chan struct{})
	x.left.Store(n)
	x.open.Store(int64(len(x.handles)))
	for _, h := range x.handles {
		x.next(h)
	}
}

func (x *pair) next(h lnet.Handle) {
	err := errOver
	if x.left.Add(-1) >= 0 {
		err = x.from.Put(h, x.target, node.PutOptions{Portal: 1, Ack: true})
	}
	if err != nil {
		x.end(err)
	}
}

var errOver = errors.New("no more")

func (x *pair) end(err error) {
	if !errors.Is(err, errOver) {
		x.err.Store(&err)
		x.left.Store(0)
	}
	if x.open.Add(-1) == 0 {
		close(x.done)
	}
}

// HandleEvent implements portals.Handler.
func (x *pair) HandleEvent(e *portals.Event) {
	switch {
	case e.Unlinked:
	case e.Err != nil:
		x.end(e.Err)
	case e.Type == portals.EventAck:
		x.next(e.MD)
	}
}

// forms are the forms that Prometheus may request.
var forms = []struct{ name, accept, encoding string }{
	{"text", "text/plain;version=0.0.4", ""},
	{"text gzip", "text/plain;version=0.0.4", "gzip"},
	{"protobuf gzip", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "gzip"},
}

// answer discards the answer.
type answer struct {
	header http.Header
	status int
	size   int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { a.size += len(b); return io.Discard.Write(b) }

func ask(h http.Handler, accept, encoding string) *answer {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	a := &answer{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(a, r)
	return a
}

// BenchmarkScrape scrapes a node that has 1,000 peers of two NIDs each, while it is idle, and while
// 64 PUTs are in progress all the time.
func BenchmarkScrape(b *testing.B) {
	x := newPair(b, 1000, 64)
	h := Handler(struct {
		*node.Node
		*node.Admin
	}{x.from, x.from.Admin()}, Options{LustreCompat: true})
	for _, load := range []string{"idle", "saturated"} {
		for _, f := range forms {
			b.Run(load+"/"+f.name, func(b *testing.B) {
				if load == "saturated" {
					x.start(1 << 62)
					defer func() { x.left.Store(0); <-x.done }()
				}
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					a := ask(h, f.accept, f.encoding)
					if a.status != http.StatusOK {
						b.Fatal(a.status)
					}
					size = a.size
				}
				b.ReportMetric(float64(size), "bytes")
			})
		}
	}
}

// scrapeEvery is the interval of scrapes in BenchmarkPutAckScraped, much shorter than that of
// Prometheus.
const scrapeEvery = 250 * time.Millisecond

// BenchmarkPutAckScraped measures a PUT of 64 bytes and its ACK, with 64 in progress, on a node
// that has 1,000 peers of two NIDs each. In one run it alternates between periods with and without
// scrapes.
func BenchmarkPutAckScraped(b *testing.B) {
	x := newPair(b, 1000, 64)
	h := Handler(struct {
		*node.Node
		*node.Admin
	}{x.from, x.from.Admin()}, Options{})
	const turn = 100_000
	var alone, scraped time.Duration
	var turns, scrapes int64
	for b.Loop() {
		begun := time.Now()
		x.run(b, turn)
		alone += time.Since(begun)

		stop := make(chan struct{})
		var scraper sync.WaitGroup
		scraper.Go(func() {
			for tick := time.NewTicker(scrapeEvery); ; {
				ask(h, forms[1].accept, forms[1].encoding)
				scrapes++
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
				}
			}
		})
		begun = time.Now()
		x.run(b, turn)
		scraped += time.Since(begun)
		close(stop)
		scraper.Wait()
		turns++
	}
	b.ReportMetric(float64(alone.Nanoseconds())/float64(turns*turn), "ns/alone")
	b.ReportMetric(float64(scraped.Nanoseconds())/float64(turns*turn), "ns/scraped")
	b.ReportMetric(float64(scrapes)/float64(turns), "scrapes/turn")
}
