package statuspage

import (
	"bytes"
	"flag"
	"image/png"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

var update = flag.Bool("update", false, "write the screenshots to docs/status-page")

const (
	// pictureMax is the maximum size of a screenshot in bytes, so that the repository stays small.
	pictureMax = 60 << 10
	// The size of screenshots in pixels. Higher pages are cut.
	pictureWidth  = 1100
	pictureHeight = 1600
)

// scene is a state of a node that the page shows.
type scene struct {
	name, scheme string
	source       *fakeSource
	// traffic is how many messages each NI sends between two samples, for all samples.
	traffic func(sample int) uint64
}

func scenes(t *testing.T) []scene {
	t.Helper()
	still := func(int) uint64 { return 0 }
	busy := func(k int) uint64 { return uint64(60000 + 9000*(k%7) + 500*k) }
	cut := site(t)
	cut.nets[2].NIs[0].Status, cut.nets[2].NIs[0].Reason = "down", "link down"
	for k := range 5 {
		cut.peers[k].NIs[1].Trouble, cut.peers[k].NIs[1].Health.Value = "not answering since 2026-01-02T03:04:05Z", 0
	}
	alone := site(t)
	alone.peers, alone.routes, alone.clients.Clients = nil, nil, nil
	return []scene{
		{"idle", "light", site(t), still},
		{"busy", "light", site(t), busy},
		{"rail-cut", "light", cut, func(k int) uint64 {
			if k > 40 {
				return busy(k) / 2
			}
			return busy(k)
		}},
		{"no-peers", "light", alone, still},
		{"dark", "dark", cut, busy},
	}
}

// serve returns the URL of a page for the scene.
func (s *scene) serve(t *testing.T) string {
	t.Helper()
	p, set := testPage(s.source)
	for k := range samplesMost {
		for net := range s.source.nets {
			for i := range s.source.nets[net].NIs {
				n := &s.source.nets[net].NIs[i]
				if n.Status == "up" && !n.NID.IsLoopback() {
					sent := s.traffic(k)
					n.Statistics.Sent += sent
					n.Statistics.Received += sent
					n.Counters = []api.Counter{{Name: "sent_bytes_total", Value: n.Statistics.Sent * 4096}}
				}
			}
		}
		p.history.add(testStart.Add(time.Duration(k)*samplePause), s.source.nets)
	}
	set(3*time.Hour + 25*time.Minute)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.URL
}

// TestInBrowser shows the page in Chromium in several states. In each, no error is reported, the accessibility tree
// and the contrast are as they should be, and the keyboard reaches everything. With -update it writes screenshots.
func TestInBrowser(t *testing.T) {
	b := startBrowser(t)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": pictureWidth, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	for _, s := range scenes(t) {
		t.Run(s.name, func(t *testing.T) {
			b.t = t
			b.colours(s.scheme)
			url := s.serve(t)
			b.open(url + "/")
			checkTree(t, b)
			checkUse(t, b)
			savePicture(t, s.name, b.screenshot(pictureWidth, pictureHeight))
			if len(s.source.peers) > 0 {
				b.open(url + "/peers")
				checkUse(t, b)
			}
			if got := b.reported(); len(got) > 0 {
				t.Errorf("the page reports: %s", strings.Join(got, "\n"))
			}
		})
	}
}

// checkUse checks that everybody can read and use a page.
func checkUse(t *testing.T, b *browser) {
	t.Helper()
	checkContrast(t, b)
	checkKeyboard(t, b)
	checkWidth(t, b)
}

func savePicture(t *testing.T, name string, picture []byte) {
	t.Helper()
	config, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil || config.Width != pictureWidth || config.Height < 300 {
		t.Fatalf("screenshot: %v, %+v", err, config)
	}
	if !*update {
		return
	}
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(img)); err != nil {
		t.Fatal(err)
	}
	if small.Len() > pictureMax {
		t.Errorf("the screenshot has %d bytes", small.Len())
	}
	dir := filepath.Join("..", "..", "..", "docs", "status-page")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkTree checks the accessibility tree: it has the landmarks, what has a role that needs a name has one, and tables
// have headings.
func checkTree(t *testing.T, b *browser) {
	t.Helper()
	count := map[string]int{}
	for _, n := range b.accessibility() {
		count[n.role()]++
		named := []string{"link", "button", "image", "img", "table", "region", "navigation", "heading", "columnheader", "rowheader", "SvgRoot"}
		if slices.Contains(named, n.role()) && n.name() == "" {
			t.Errorf("a %s has no name", n.role())
		}
	}
	for role, least := range map[string]int{"banner": 1, "navigation": 1, "main": 1, "contentinfo": 1, "region": 7, "link": 9, "columnheader": 10, "rowheader": 2, "table": 1} {
		if count[role] < least {
			t.Errorf("the accessibility tree has %d nodes %s, want %d; all: %v", count[role], role, least, count)
		}
	}
}

// contrastScript returns texts whose contrast with what is behind them is below 4.5 (WCAG 2, 1.4.3).
const contrastScript = `(() => {
	const parts = (colour) => { const m = colour.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const luminance = (rgb) => { const [r, g, b] = rgb.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (element) => {
		if (element.ownerSVGElement) {
			const box = element.parentElement.querySelector(':scope > rect');
			const fill = box && getComputedStyle(box).fill;
			return parts(fill && fill !== 'none' ? fill : getComputedStyle(element.ownerSVGElement.querySelector('.ground')).fill);
		}
		for (let e = element; e; e = e.parentElement) {
			const colour = parts(getComputedStyle(e).backgroundColor);
			if (colour[3] === 1) { return colour; }
		}
		return [255, 255, 255, 1];
	};
	const found = [];
	let checked = 0;
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || !element.getClientRects().length || ['title', 'desc', 'SCRIPT'].includes(element.tagName)) { continue; }
		const style = getComputedStyle(element);
		const ink = luminance(parts(element.ownerSVGElement ? style.fill : style.color)), ground = luminance(behind(element));
		const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
		checked++;
		if (contrast < 4.5) { found.push(contrast.toFixed(2) + ': ' + walker.currentNode.data.trim()); }
	}
	return { found, checked };
})()`

func checkContrast(t *testing.T, b *browser) {
	t.Helper()
	var got struct {
		Found   []string
		Checked int
	}
	b.evaluate(contrastScript, &got)
	if len(got.Found) > 0 || got.Checked < 50 {
		t.Errorf("of %d texts these have too little contrast: %q", got.Checked, got.Found)
	}
}

// checkKeyboard checks that Tab reaches everything that can be used, the link that skips the navigation first, and that
// what has the focus is marked.
func checkKeyboard(t *testing.T, b *browser) {
	t.Helper()
	var want int
	b.evaluate(`document.activeElement.blur(), document.querySelectorAll('a[href], button:not([hidden]), [tabindex="0"]').length`, &want)
	seen := map[string]bool{}
	for k := range want {
		const tab = 9
		b.press("Tab", tab)
		var at struct{ What, Outline string }
		b.evaluate(`(() => {
			const e = document.activeElement, all = [...document.querySelectorAll('*')], style = getComputedStyle(e);
			return { what: all.indexOf(e) + ' ' + (e.getAttribute('aria-label') || e.textContent.trim().slice(0, 40)), outline: style.outlineStyle + ' ' + style.outlineWidth };
		})()`, &at)
		if k == 0 && !strings.HasSuffix(at.What, " Skip to the content") {
			t.Errorf("Tab goes to %q first", at.What)
		}
		if at.Outline != "solid 3px" {
			t.Errorf("the focus on %q is marked by %q", at.What, at.Outline)
		}
		seen[at.What] = true
	}
	if len(seen) != want {
		t.Errorf("Tab reaches %d of %d elements: %v", len(seen), want, seen)
	}
	b.evaluate(`document.activeElement.blur(), window.scrollTo(0, 0)`, nil)
}

// checkWidth checks that the page needs no horizontal scrolling, also on a narrow display.
func checkWidth(t *testing.T, b *browser) {
	t.Helper()
	for _, width := range []int{320, pictureWidth} {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
		var over int
		b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &over)
		if over > 0 {
			t.Errorf("on a display of %d pixels the page is %d pixels too wide", width, over)
		}
	}
}

// The script updates the page in place, keeps the section in which the focus is, and reports an lnetd that does not
// answer. The button pauses it.
func TestScript(t *testing.T) {
	s := site(t)
	p, set := testPage(s)
	server := httptest.NewServer(p)
	defer server.Close()
	b := startBrowser(t)
	b.open(server.URL + "/")
	sent := func() (text string) {
		b.evaluate(`document.querySelector('#nis tbody td:nth-child(8)').textContent`, &text)
		return text
	}
	second := time.Duration(0)
	change := func(n uint64) {
		s.nets[1].NIs[0].Statistics.Sent = n
		second += time.Second
		set(second)
		b.evaluate("update()", nil)
	}
	for _, step := range []struct {
		do   string
		sent uint64
		want string
	}{
		{"", 2001, "2,001"},
		{"document.querySelector('#nis .scroll').focus()", 2002, "2,001"},
		{"document.activeElement.blur()", 2003, "2,003"},
		{"document.getElementById('pause').click()", 2004, "2,003"},
		{"document.getElementById('pause').click()", 2005, "2,005"},
	} {
		if step.do != "" {
			b.evaluate(step.do, nil)
		}
		if change(step.sent); sent() != step.want {
			t.Errorf("after %q the page shows %s, want %s", step.do, sent(), step.want)
		}
	}
	if got := b.reported(); len(got) > 0 {
		t.Errorf("the page reports: %s", strings.Join(got, "\n"))
	}
	server.Close()
	change(2006)
	var text string
	if b.evaluate(`document.getElementById('connection').textContent`, &text); !strings.HasPrefix(text, "lnetd does not answer (") || sent() != "2,005" {
		t.Errorf("without lnetd: %q, %s", text, sent())
	}
}

// The script shows whether lnetd is ready together with the reason, in each direction.
func TestScriptShowsReadiness(t *testing.T) {
	s := site(t)
	p, set := testPage(s)
	server := httptest.NewServer(p)
	defer server.Close()
	b := startBrowser(t)
	b.open(server.URL + "/")
	for k, stuck := range []string{"", "monitor", "", "monitor"} {
		s.stuck = stuck
		set(time.Duration(k+1) * time.Second)
		var text string
		b.evaluate("update()", nil)
		b.evaluate(`document.querySelector('header').textContent`, &text)
		ready, reason := !strings.Contains(text, "not ready"), strings.Contains(text, "the node is stuck: monitor")
		if ready != (stuck == "") || reason != (stuck != "") {
			t.Errorf("step %d: stuck %q: %s", k, stuck, text)
		}
	}
	if got := b.reported(); len(got) > 0 {
		t.Errorf("the page reports: %s", strings.Join(got, "\n"))
	}
}

// Without scripts, the page shows the same tables, and no button that would do nothing.
func TestWithoutScripts(t *testing.T) {
	s := scenes(t)[1]
	b := startBrowser(t)
	b.withoutScripts()
	b.open(s.serve(t) + "/")
	dom := b.document()
	for _, want := range []string{"10.0.0.14@tcp", "m0d", "<polyline", `hidden="hidden"`, "<caption>Routes to remote nets</caption>", ">Reload</a>"} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %q in the page without scripts", want)
		}
	}
	if n := strings.Count(dom, "<table>"); n != 4 {
		t.Errorf("%d tables", n)
	}
}
