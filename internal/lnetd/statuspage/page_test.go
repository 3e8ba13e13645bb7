package statuspage

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// fakeSource is a Source with values that a test sets.
type fakeSource struct {
	down    bool
	stuck   string
	nets    []api.Net
	waiting []api.WaitingNI
	peers   []api.Peer
	routes  []api.Route
	clients api.Clients
	silent  bool // discovery does not answer
	looks   atomic.Int32
}

func (s *fakeSource) LNetDown() bool           { return s.down }
func (s *fakeSource) Stuck() string            { return s.stuck }
func (s *fakeSource) Nets() []api.Net          { return s.nets }
func (s *fakeSource) Waiting() []api.WaitingNI { return s.waiting }
func (s *fakeSource) Routes() []api.Route      { return s.routes }
func (s *fakeSource) Routing() api.Routing     { return api.Routing{} }
func (s *fakeSource) Globals() api.Globals     { return api.Globals{} }
func (s *fakeSource) Clients() api.Clients     { return s.clients }

func (s *fakeSource) Version() api.Version {
	return api.Version{Program: "lnetd", Version: "v1.2.3", Started: testStart}
}

func (s *fakeSource) Peers(_ context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error] {
	s.looks.Add(1)
	return func(yield func(api.Peer, error) bool) {
		if s.silent {
			yield(api.Peer{}, errors.New("no answer"))
			return
		}
		for _, p := range s.peers {
			if p.ID > uint64(after) && !yield(p, nil) {
				return
			}
		}
	}
}

var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testPage returns a page of s, whose clock stands at the time that the returned function sets.
func testPage(s Source) (p *Page, set func(time.Duration)) {
	p = New(s)
	var now atomic.Int64
	p.now = func() time.Time { return testStart.Add(time.Duration(now.Load())) }
	return p, func(d time.Duration) { now.Store(int64(d)) }
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func nid(t testing.TB, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// site returns a source with everything that the page can show.
func site(t testing.TB) *fakeSource {
	t.Helper()
	ni := func(name, device, status string, health int, sent uint64) api.NI {
		return api.NI{
			NID: nid(t, name), Interfaces: []string{device}, Status: status, Health: api.HealthStats{Value: health},
			Statistics: api.Statistics{Sent: sent, Received: sent / 2}, Counters: []api.Counter{{Name: "sent_bytes_total", Value: sent * 4096}},
		}
	}
	tcp, tcp1, tcp9 := lnet.MakeNet(lnet.TypeTCP, 0), lnet.MakeNet(lnet.TypeTCP, 1), lnet.MakeNet(lnet.TypeTCP, 9)
	s := &fakeSource{
		nets: []api.Net{
			{Net: lnet.LoopbackNID.Net(), NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up"}}},
			{Net: tcp, NIs: []api.NI{ni("10.0.0.1@tcp", "eth0", "up", 1000, 1000)}},
			{Net: tcp1, NIs: []api.NI{ni("10.0.1.1@tcp1", "eth1", "up", 1000, 500)}},
		},
		routes:  []api.Route{{Net: tcp9, Gateway: nid(t, "10.0.0.7@tcp"), Up: true, Hops: 1}},
		clients: api.Clients{Socket: "/run/lnetd/lnetd.sock"},
	}
	for k := range 5 {
		rails := []api.PeerNI{}
		for rail, net := range []string{"tcp", "tcp1"} {
			rails = append(rails, api.PeerNI{
				NID: nid(t, fmt.Sprintf("10.0.%d.%d@%s", rail, 10+k, net)), State: "NA",
				Health: api.PeerHealthStats{Value: 1000}, Statistics: api.Statistics{Sent: uint64(100 * k)},
			})
		}
		s.peers = append(s.peers, api.Peer{ID: uint64(k + 1), Primary: rails[0].NID, MultiRail: true, NIs: rails})
	}
	gateway := api.Peer{ID: 6, Primary: nid(t, "10.0.0.7@tcp"), Gateway: true, NIs: []api.PeerNI{{
		NID: nid(t, "10.0.0.7@tcp"), State: "up", Health: api.PeerHealthStats{Value: 1000},
	}}}
	s.peers = append(s.peers, gateway)
	s.clients.Clients = []api.ClientInfo{{ID: 1, PID: 4711, Program: "m0d", Rule: "servers", Since: testStart, Bytes: 1 << 20, TMs: []api.ClientTM{{
		NID: nid(t, "10.0.0.1@tcp"), Queues: []api.ClientQueue{{Queue: "mSEND", Depth: 3, Completed: 1234, Failed: 1}},
	}}}}
	return s
}

// element is an element of a page: its name, attributes and text, with that of elements in it.
type element struct {
	name  string
	attrs map[string]string
	text  string
	above []string // names of the elements around it
}

// parse checks that a page is well-formed XML, and returns its elements.
func parse(t *testing.T, page string) (all []*element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	var open []*element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			for _, o := range open {
				e.above = append(e.above, o.name)
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			for _, o := range open {
				o.text += " "
			}
			open = open[:len(open)-1]
		case xml.CharData:
			for _, o := range open {
				o.text += string(token)
			}
		}
	}
}

func withName(all []*element, name string) (list []*element) {
	for _, e := range all {
		if e.name == name {
			list = append(list, e)
		}
	}
	return list
}

// The page has what screen readers and keyboards need: landmarks, one heading of the first level, captions and scopes
// of tables, names of pictures and regions, a link to skip to the content, unique IDs, and links that lead somewhere.
func TestStructure(t *testing.T) {
	s := site(t)
	p, set := testPage(s)
	p.history.add(testStart, s.nets)
	p.history.add(testStart.Add(samplePause), s.nets)
	p.history.add(testStart.Add(2*samplePause), s.nets)
	set(3 * time.Hour)
	for _, path := range []string{"/", "/peers"} {
		all := parse(t, get(t, p, path).Body.String())
		for name, want := range map[string]int{"html": 1, "title": 1, "h1": 1, "main": 1, "header": 1, "nav": 1} {
			got := withName(all, name)
			got = slices.DeleteFunc(got, func(e *element) bool { return slices.Contains(e.above, "svg") })
			if len(got) != want {
				t.Errorf("%s has %d elements %s", path, len(got), name)
			}
		}
		ids := map[string]bool{}
		for _, e := range all {
			if id := e.attrs["id"]; id != "" && ids[id] {
				t.Errorf("%s: the ID %s is not unique", path, id)
			} else {
				ids[id] = true
			}
		}
		for _, e := range all {
			if target, ok := strings.CutPrefix(e.attrs["href"], "#"); ok && !ids[target] {
				t.Errorf("%s: a link leads to %s, which does not exist", path, target)
			}
			for _, id := range strings.Fields(e.attrs["aria-labelledby"]) {
				if !ids[id] {
					t.Errorf("%s: the name of %s is %s, which does not exist", path, e.name, id)
				}
			}
			switch named := e.attrs["aria-label"] + e.attrs["aria-labelledby"]; {
			case e.name == "svg" && (named == "" || e.attrs["role"] != "img"),
				e.attrs["role"] == "region" && named == "", e.name == "section" && named == "", e.name == "nav" && named == "":
				t.Errorf("%s: a %s has no name", path, e.name)
			case e.name == "th" && !slices.Contains([]string{"col", "row", "rowgroup"}, e.attrs["scope"]):
				t.Errorf("%s: the heading %q has no scope", path, e.text)
			case e.name == "html" && e.attrs["lang"] != "en":
				t.Errorf("%s has no language", path)
			case e.attrs["style"] != "" || e.name == "style" || strings.HasPrefix(e.name, "on"):
				t.Errorf("%s: %+v is forbidden by the content policy", path, e)
			case e.name == "script" && (strings.TrimSpace(e.text) != "" || e.attrs["src"] != "/script.js"):
				t.Errorf("%s: %+v is forbidden by the content policy", path, e)
			case (e.name == "a" || e.name == "button") && strings.TrimSpace(e.text) == "":
				t.Errorf("%s: a %s has no text", path, e.name)
			}
		}
		if first := withName(all, "a")[0]; first.attrs["href"] != "#content" {
			t.Errorf("%s: the first link is %+v", path, first)
		}
		tables := withName(all, "table")
		if len(tables) != len(withName(all, "caption")) || len(tables) == 0 {
			t.Errorf("%s: %d tables, %d captions", path, len(tables), len(withName(all, "caption")))
		}
	}
}

// The page shows NIs, peers with their rails, routes, clients, rates and the picture.
func TestContents(t *testing.T) {
	s := site(t)
	p, set := testPage(s)
	p.history.add(testStart, s.nets)
	s.nets = slices.Clone(s.nets)
	s.nets[1].NIs = slices.Clone(s.nets[1].NIs)
	s.nets[1].NIs[0].Statistics.Sent += 500
	s.nets[1].NIs[0].Counters = []api.Counter{{Name: "sent_bytes_total", Value: 1500 * 4096}}
	p.history.add(testStart.Add(samplePause), s.nets)
	p.history.add(testStart.Add(2*samplePause), s.nets)
	p.history.add(testStart.Add(3*samplePause), s.nets)
	set(3*time.Hour + 25*time.Minute)
	w := get(t, p, "/")
	all := parse(t, w.Body.String())
	text := strings.Join(strings.Fields(withName(all, "body")[0].text), " ")
	for _, want := range []string{
		"lnetd on 10.0.0.1@tcp", "✓ ready lnetd v1.2.3, running for 3 h 25 min state of 2026-01-02 06:29:05 UTC",
		"NIs up 2 of 2", "Peers 6 6 ok, 0 degraded, 0 down", "No problems are known.",
		"0/s messages in the last 15 seconds: highest 100/s", "bytes in the last 15 seconds: highest 400 KiB/s",
		"10.0.0.14@tcp ✓ ok 10.0.0.14@tcp ✓ ok 1000 400 0 0 B 10.0.1.14@tcp1 ✓ ok 1000 400 0 0 B",
		"10.0.0.7@tcp gateway", "tcp9 10.0.0.7@tcp ✓ up 1 0", "m0d 4711 servers 2026-01-02 03:04:05 UTC 1 1.0 MiB 3 1,234 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if len(withName(all, "polyline")) != 6 {
		t.Errorf("%d sparklines", len(withName(all, "polyline")))
	}
}

// A node with problems, without LNet, and without anything are shown as such.
func TestOtherStates(t *testing.T) {
	down := site(t)
	down.nets = slices.Clone(down.nets)
	for k := 1; k < 3; k++ {
		down.nets[k].NIs = slices.Clone(down.nets[k].NIs)
		down.nets[k].NIs[0].Status, down.nets[k].NIs[0].Reason = "down", "link down"
	}
	silent := site(t)
	silent.silent = true
	stuck := site(t)
	stuck.stuck = "monitor"
	for name, tt := range map[string]struct {
		source *fakeSource
		want   []string
	}{
		"NIs are down":          {down, []string{"✕ not ready", "no NI is up: 10.0.0.1@tcp: link down; 10.0.1.1@tcp1: link down", "NIs up 0 of 2", "LNET"}},
		"LNet is down":          {&fakeSource{down: true}, []string{"✕ not ready", "LNet is not configured", "There are no NIs except 0@lo."}},
		"nothing":               {&fakeSource{}, []string{"no NI is up, because none is configured", "No peers are known yet", "There are no routes", "lnetd hosts no programs"}},
		"stuck":                 {stuck, []string{"✕ not ready", "the node is stuck: monitor", "no progress in: monitor"}},
		"no answer":             {silent, []string{"peers are missing, because lnetd did not list them in time"}},
		"no programs connected": {&fakeSource{clients: api.Clients{Socket: "/run/lnetd/lnetd.sock"}}, []string{"No program is connected to /run/lnetd/lnetd.sock"}},
	} {
		p, _ := testPage(tt.source)
		text := strings.Join(strings.Fields(withName(parse(t, get(t, p, "/").Body.String()), "body")[0].text), " ")
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", name, want, text)
			}
		}
		parse(t, get(t, p, "/peers").Body.String())
	}
}

// Names that peers, clients and the host choose do not become elements, attributes or scripts.
func TestHostileNames(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror='alert(1)'>{{.}}&`
	s := site(t)
	s.nets[1].NIs[0].Interfaces = []string{evil}
	s.nets[2].NIs[0].Status, s.nets[2].NIs[0].Reason = "down", evil
	s.waiting = []api.WaitingNI{{Net: lnet.MakeNet(lnet.TypeTCP, 3), Interface: evil, Cause: evil}}
	s.peers[0].NIs[0].Trouble = evil
	s.clients.Clients[0].Program, s.clients.Clients[0].Rule = evil, evil
	s.clients.Proxies = []api.ProxyInfo{{Name: evil, NID: nid(t, "10.0.0.1@tcp")}}
	s.clients.Unserved = []api.UnservedNI{{NI: evil, Reason: evil}}
	p, _ := testPage(s)
	for _, path := range []string{"/", "/peers"} {
		all := parse(t, get(t, p, path).Body.String())
		if n := len(withName(all, "script")); n != 1 {
			t.Errorf("%s has %d scripts", path, n)
		}
		if n := len(withName(all, "img")); n != 0 {
			t.Errorf("%s has %d images", path, n)
		}
		for _, e := range all {
			for name := range e.attrs {
				if strings.HasPrefix(name, "on") {
					t.Errorf("%s: %+v", path, e)
				}
			}
		}
		if !strings.Contains(withName(all, "body")[0].text, evil[:40]) {
			t.Errorf("%s does not show the name", path)
		}
	}
}

// However many objects there are, the size of the page is bounded, and the others are counted.
func TestBounds(t *testing.T) {
	s := site(t)
	for k := range 10000 {
		n := nid(t, fmt.Sprintf("10.7.%d.%d@tcp", k/250, k%250))
		s.peers = append(s.peers, api.Peer{ID: uint64(100 + k), Primary: n, NIs: []api.PeerNI{{NID: n, State: "NA", Health: api.PeerHealthStats{Value: 1000}}}})
		s.routes = append(s.routes, api.Route{Net: lnet.MakeNet(lnet.TypeTCP, uint16(1000+k)), Gateway: nid(t, "10.0.0.7@tcp")})
		s.clients.Clients = append(s.clients.Clients, api.ClientInfo{ID: uint64(k), Program: "p"})
		s.clients.Proxies = append(s.clients.Proxies, api.ProxyInfo{Name: "p", NID: n})
		s.nets[1].NIs = append(s.nets[1].NIs, api.NI{NID: n, Status: "down", Reason: "link down"})
	}
	p, _ := testPage(s)
	body := get(t, p, "/").Body.String()
	if len(body) > 200_000 {
		t.Errorf("%d bytes", len(body))
	}
	for _, want := range []string{"And 9982 others", "And 9901 others", "And 9900 others.</p>", "And 9938 others, 2 of them up."} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
}

// The list of all peers has pages that lead to each other and show each peer once.
func TestPeersPages(t *testing.T) {
	s := site(t)
	for k := range 250 {
		n := nid(t, fmt.Sprintf("10.7.0.%d@tcp", k))
		s.peers = append(s.peers, api.Peer{ID: uint64(100 + k), Primary: n, NIs: []api.PeerNI{{NID: n, Health: api.PeerHealthStats{Value: 1000}}}})
	}
	p, _ := testPage(s)
	seen := map[string]int{}
	path, pages := "/peers", 0
	for path != "" {
		all := parse(t, get(t, p, path).Body.String())
		for _, e := range withName(all, "th") {
			if e.attrs["scope"] == "rowgroup" {
				seen[strings.TrimSpace(e.text)]++
			}
		}
		path = ""
		for _, e := range withName(all, "a") {
			if e.attrs["rel"] == "next" {
				path = e.attrs["href"]
			}
		}
		pages++
	}
	if pages != 3 || len(seen) != 256 {
		t.Errorf("%d pages, %d peers", pages, len(seen))
	}
	if w := get(t, p, "/peers?after=99999"); !strings.Contains(w.Body.String(), "There are no more peers.") {
		t.Error(w.Body)
	}
	for _, after := range []string{"x", "-1", "99999999999999999999"} {
		if w := get(t, p, "/peers?after="+after); w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", after, w.Code)
		}
	}
}

// Many requests at the same time cost one look at the node in a second.
func TestManyRequests(t *testing.T) {
	s := site(t)
	p, set := testPage(s)
	for second := range 3 {
		set(time.Duration(second) * time.Second)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { get(t, p, "/") })
		}
		group.Wait()
		if got := s.looks.Load(); got != int32(second+1) {
			t.Errorf("%d looks in %d seconds", got, second+1)
		}
	}
	set(0) // the clock was set back
	if get(t, p, "/"); s.looks.Load() != 4 {
		t.Errorf("%d looks after the clock was set back", s.looks.Load())
	}
}

// Responses permit nothing but the page's own files, and only GET and HEAD are accepted.
func TestHeaders(t *testing.T) {
	p, _ := testPage(site(t))
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/peers": "text/html; charset=utf-8", "/style.css": "text/css; charset=utf-8",
		"/script.js": "text/javascript; charset=utf-8", "/icon.svg": "image/svg+xml", "/healthz": "text/plain; charset=utf-8", "/readyz": "text/plain; charset=utf-8",
	} {
		w := get(t, p, path)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", path, w.Code, h)
		}
		if h.Get("Content-Security-Policy") != "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'" {
			t.Errorf("%s: %v", path, h)
		}
		if h.Get("Cache-Control") == "" {
			t.Errorf("%s may be cached", path)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			if p.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("x"))); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
		head := httptest.NewRecorder()
		if p.ServeHTTP(head, httptest.NewRequest(http.MethodHead, path, nil)); head.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, head.Code)
		}
	}
	for _, path := range []string{"/x", "/assets/page.html", "/page.html", "/style.css/", "/..", "/metrics"} {
		if w := get(t, p, path); w.Code == http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for name, h := range map[string]http.Handler{"page": p, "health": Health(site(t))} {
		for _, path := range []string{"//", "/../x", "//readyz", "/x"} {
			got := get(t, h, path).Header()
			if got.Get("Content-Security-Policy") == "" || got.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: redirects and errors have no policy: %s: %v", name, path, got)
			}
		}
	}
	tag := get(t, p, "/style.css").Header().Get("ETag")
	r := httptest.NewRequest(http.MethodGet, "/style.css", nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); w.Code != http.StatusNotModified {
		t.Errorf("an unchanged file: %d", w.Code)
	}
}

// BenchmarkPage makes the page of a node with 10,000 peers.
func BenchmarkPage(b *testing.B) {
	s := site(b)
	for k := range 10000 {
		n := nid(b, fmt.Sprintf("10.7.%d.%d@tcp", k/250, k%250))
		s.peers = append(s.peers, api.Peer{ID: uint64(100 + k), Primary: n, NIs: []api.PeerNI{{NID: n, State: "NA", Health: api.PeerHealthStats{Value: 1000}}}})
	}
	p, _ := testPage(s)
	b.ReportAllocs()
	for b.Loop() {
		render("page.html", p.look(b.Context()))
	}
}
