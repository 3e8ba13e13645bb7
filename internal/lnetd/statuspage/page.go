package statuspage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/topology"
)

const (
	// freshFor is how long a page that was made is used for further requests.
	freshFor = time.Second
	// lookTimeout is the timeout for reading peers. Without an answer of lnetd the page lacks peers.
	lookTimeout = 5 * time.Second
)

//go:embed assets
var assets embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"bytes":  func(n int64) string { return size(float64(n)) },
	"number": number,
	"nis": func(p *topology.Picture) string {
		all := p.AllNIs()
		return fmt.Sprintf("%d of %d", all.Up, all.All)
	},
	"date": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
}).ParseFS(assets, "assets/*.html"))

// contentPolicy permits nothing but the page's own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Page is the status page of an lnetd. It is an http.Handler for /, /peers, /healthz, /readyz and the page's own files.
type Page struct {
	source  Source
	now     func() time.Time
	history history
	mux     *http.ServeMux

	mu sync.Mutex // guards what follows; held while the page is made
	// made is the page as it was made last, at the time madeAt. It is nil if it was never made.
	made   []byte
	madeAt time.Time
}

// New returns a Page that shows s.
func New(s Source) *Page {
	p := &Page{source: s, now: time.Now, mux: http.NewServeMux()}
	health := Health(s)
	p.mux.Handle("/healthz", health)
	p.mux.Handle("/readyz", health)
	p.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { send(w, p.page()) })
	p.mux.HandleFunc("GET /peers", p.servePeers)
	p.mux.Handle("GET /style.css", file("text/css; charset=utf-8", asset("style.css"), []byte(topology.Style)))
	p.mux.Handle("GET /script.js", file("text/javascript; charset=utf-8", asset("script.js")))
	p.mux.Handle("GET /icon.svg", file("image/svg+xml", asset("icon.svg")))
	return p
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { restricted(p.mux).ServeHTTP(w, r) }

// restricted returns a handler that calls h, and whose responses permit browsers only what the page needs. This includes
// redirects and errors.
func restricted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.ServeHTTP(w, r)
	})
}

// Run samples the counters of NIs for the page until ctx is done.
func (p *Page) Run(ctx context.Context) {
	tick := time.NewTicker(samplePause)
	defer tick.Stop()
	for {
		if !p.source.LNetDown() {
			p.history.add(p.now(), p.source.Nets())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// page returns the HTML of the page. If several requests arrive at the same time, it is made once.
func (p *Page) page() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.made == nil || now.Sub(p.madeAt) >= freshFor || now.Before(p.madeAt) {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		p.made = render("page.html", p.look(ctx))
		p.madeAt = p.now()
	}
	return p.made
}

// servePeers responds with a page of the list of all peers.
func (p *Page) servePeers(w http.ResponseWriter, r *http.Request) {
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			http.Error(w, "after must be the number of a peer", http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
	defer cancel()
	send(w, render("peers.html", p.lookAtPeers(ctx, after)))
}

// render returns the HTML of a template. Templates fail only because of an error in them, which tests would find.
func render(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic("statuspage: " + err.Error())
	}
	return b.Bytes()
}

func send(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error means that the client has left
}

func asset(name string) []byte {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("statuspage: " + err.Error()) // it is embedded
	}
	return b
}

// file returns a handler for a file that never changes while lnetd runs. Browsers ask each time whether it is the same,
// because another version of lnetd may have another one.
func file(contentType string, parts ...[]byte) http.Handler {
	body := bytes.Join(parts, nil)
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
