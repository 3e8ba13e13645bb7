package hosting

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// proxy forwards connections between two lnetds, with the caller's address as source. It can cut
// the connections.
type proxy struct {
	listener *net.TCPListener
	to       string
	work     sync.WaitGroup

	mu    sync.Mutex // guards the rest
	pairs map[*[2]*net.TCPConn]struct{}
	over  bool
}

// between starts a proxy from host:at to host:to.
func between(t testing.TB, host string, at, to int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(at)))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l.(*net.TCPListener), to: net.JoinHostPort(host, strconv.Itoa(to)), pairs: make(map[*[2]*net.TCPConn]struct{})}
	p.work.Go(p.serve)
	t.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		_ = l.Close()
		for p.cut(nil) {
		}
		p.work.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.work.Go(func() { p.join(in) })
	}
}

// join forwards one connection until one side ends it or it is cut.
func (p *proxy) join(in *net.TCPConn) {
	from := &net.TCPAddr{IP: in.RemoteAddr().(*net.TCPAddr).IP}
	out, err := (&net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}).Dial("tcp", p.to)
	if err != nil {
		_ = in.SetLinger(0)
		_ = in.Close()
		return
	}
	pair := &[2]*net.TCPConn{in, out.(*net.TCPConn)}
	p.mu.Lock()
	if p.over {
		_ = in.Close()
		_ = out.Close()
		p.mu.Unlock()
		return
	}
	p.pairs[pair] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			_, _ = io.Copy(pair[1-i], pair[i])
			_ = pair[1-i].CloseWrite()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.pairs, pair)
	p.mu.Unlock()
	for _, c := range pair {
		_ = c.Close()
	}
}

// cut cuts one random connection and reports whether there was one.
func (p *proxy) cut(r *rand.Rand) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pairs) == 0 {
		return false
	}
	n := 0
	if r != nil {
		n = r.IntN(len(p.pairs))
	}
	for pair := range p.pairs {
		if n--; n < 0 {
			for _, c := range pair {
				if r == nil || r.IntN(4) > 0 {
					_ = c.SetLinger(0) // a reset
				}
				_ = c.Close()
			}
			delete(p.pairs, pair)
			break
		}
	}
	return true
}
