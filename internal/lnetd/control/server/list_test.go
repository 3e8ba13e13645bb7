package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// crowd is a backend with a very large number of peers.
type crowd struct {
	fakeBackend
	peers  int
	fail   map[int]error // the error of a peer, by number
	pulled atomic.Int64  // number of peers that were requested from it
	ended  chan struct{} // receives a value for each list that is no longer read
}

func newCrowd(peers int) *crowd { return &crowd{peers: peers, ended: make(chan struct{}, 10_000)} }

func crowdNID(k int) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(k)) }

func (b *crowd) Peers(_ context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error] {
	return func(yield func(api.Peer, error) bool) {
		defer func() { b.ended <- struct{}{} }()
		for k := int(after) + 1; k <= b.peers; k++ {
			b.pulled.Add(1)
			p := api.Peer{ID: uint64(k), Primary: crowdNID(k), NIs: []api.PeerNI{{NID: crowdNID(k), State: "NA", Refs: k}}}
			if !yield(p, b.fail[k]) {
				return
			}
		}
	}
}

func (b *crowd) Peer(nid lnet.NID) (api.Peer, bool) {
	return api.Peer{Primary: nid, NIs: []api.PeerNI{}}, true
}

// serveCrowd serves b to at most most clients; 0 means lnetd's own limit.
func serveCrowd(t *testing.T, b *crowd, most int) (path string) {
	t.Helper()
	path = filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- (&Server{Backend: b, maxConnections: most}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path
}

// slowReader requests all peers and reads only the beginning of the answer.
func slowReader(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /v1/peers HTTP/1.1\r\nHost: lnetd\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200" {
		t.Fatalf("%q, %v", head, err)
	}
	return conn
}

// TestSlowReadersAreInNobodysWay: given more clients than there may be, which do not read an
// endless list, then no more of the list is produced than the buffers hold, and other questions,
// changes and lists are answered.
func TestSlowReadersAreInNobodysWay(t *testing.T) {
	const readers, most = 100, 80
	b := newCrowd(1 << 40)
	path := serveCrowd(t, b, most)
	ctx := t.Context()
	var slow []net.Conn
	for range readers {
		slow = append(slow, slowReader(t, path))
	}
	for range 2 * most { // each on a new connection
		c := client.New(path)
		if _, err := c.Version(ctx); err != nil {
			t.Fatal(err)
		}
		if p, err := c.Peers(ctx, "10.0.0.7@tcp"); err != nil || len(p) != 1 {
			t.Fatalf("%v, %v", p, err)
		}
		c.Close()
	}
	c := client.New(path)
	defer c.Close()
	read := 0
	for _, err := range c.EachPeer(ctx, "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == 20_000 { // more than one page
			break
		}
	}
	if got := b.pulled.Load(); got > readers*5_000+3*20_000 {
		t.Errorf("%d peers were made for one who read %d, and %d who read nothing", got, read, readers)
	}
	for _, conn := range slow {
		_ = conn.Close()
	}
}

// TestEachPageHasATime: given a list on a connection without a buffer, when each page is read
// within ReplyPatience, then the whole list arrives, however long that takes. When one page is read
// too late, the connection is closed and the list ends.
func TestEachPageHasATime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration
		whole bool
	}{{"in time", api.ReplyPatience - time.Second, true}, {"late", api.ReplyPatience + time.Second, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newCrowd(2000)
				dial, end := servePipes(t, &Server{Backend: b})
				ours := dial()
				if _, err := io.WriteString(ours, "GET /v1/peers HTTP/1.1\r\nHost: lnetd\r\nConnection: close\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				begun := time.Now()
				buf := make([]byte, 2*pageSize)
				var err error
				for err == nil {
					time.Sleep(tt.pause / 8) // a page takes a few reads
					var n int
					n, err = ours.Read(buf)
					got.Write(buf[:n])
					if !tt.whole && got.Len() > 5*pageSize {
						time.Sleep(tt.pause)
					}
				}
				whole := strings.HasSuffix(got.String(), "\r\n0\r\n\r\n")
				if whole != tt.whole {
					t.Errorf("after %v and %d bytes: whole %v, %v", time.Since(begun), got.Len(), whole, err)
				}
				if tt.whole && time.Since(begun) < 4*api.ReplyPatience {
					t.Errorf("all came within %v: this shows nothing", time.Since(begun))
				}
				<-b.ended
				_ = ours.Close()
				end()
			})
		})
	}
}

// TestListsThatFail checks that a list which fails is refused if nothing of it has been sent.
// Otherwise the reply is cut off, so that no client takes it for complete.
func TestListsThatFail(t *testing.T) {
	for at, begun := range map[int]bool{1: false, 2: false, 2000: true} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			b := newCrowd(3000)
			b.fail = map[int]error{at: errors.New("no more")}
			resp := request(t, serveCrowd(t, b, 0), http.MethodGet, "/v1/peers", "")
			if begun {
				if resp.status != http.StatusOK || !errors.Is(resp.err, io.ErrUnexpectedEOF) {
					t.Errorf("%d, %d bytes, %v", resp.status, len(resp.body), resp.err)
				}
				return
			}
			if resp.status != http.StatusServiceUnavailable || resp.err != nil || !strings.Contains(resp.body, `"code":"stopping"`) {
				t.Errorf("%+v", resp)
			}
		})
	}
}

// part requests one page of the peers.
func part(t *testing.T, path, page string) (p api.Peers) {
	t.Helper()
	resp := request(t, path, http.MethodGet, "/v1/peers?detail=1&page="+page, "")
	if err := json.Unmarshal([]byte(resp.body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestParts checks that the pages of a list form the whole list, in order, and that the last page
// has no successor.
func TestParts(t *testing.T) {
	const peers = 30_000
	b := newCrowd(peers)
	path := serveCrowd(t, b, 0)
	next, parts := 1, 0
	for page := api.FirstPage; page != ""; parts++ {
		p := part(t, path, page)
		for _, peer := range p.Peers {
			if peer.Primary != crowdNID(next) || peer.NIs[0].Refs != next {
				t.Fatalf("%+v, want number %d", peer, next)
			}
			next++
		}
		page = p.Next
	}
	if next != peers+1 || parts < 3 {
		t.Errorf("%d peers in %d parts", next-1, parts)
	}
	if got := b.pulled.Load(); got > peers+int64(parts) {
		t.Errorf("%d peers were made for a list of %d", got, peers)
	}
}

// TestPagesOfOtherLives checks that a page named by one run of the daemon is refused by another.
func TestPagesOfOtherLives(t *testing.T) {
	b := newCrowd(10)
	b.version.Started = time.Unix(1, 0)
	h := handlers{Server: &Server{Backend: b}}
	page := h.pageAfter(7)
	if id, fault := h.parsePage(page); id != 7 || fault != nil {
		t.Errorf("%s: %d, %v", page, id, fault)
	}
	b.version.Started = time.Unix(2, 0)
	for _, page := range []string{page, "7", "x", "", "-", "1-", "18446744073709551616-0"} {
		if _, fault := h.parsePage(page); fault == nil || fault.Errno != -11 || fault.Remedy == "" {
			t.Errorf("%q: %v", page, fault)
		}
	}
}

// TestWholeList checks that a whole list is one JSON document, although it is written in parts.
func TestWholeList(t *testing.T) {
	resp := request(t, serveCrowd(t, newCrowd(2), 0), http.MethodGet, "/v1/peers", "")
	line := resp.body
	if resp.err != nil || !strings.HasPrefix(line, `{"peers":[{"primary_nid":"0.0.0.1@tcp","multi_rail":false,"state":0,`) ||
		!strings.HasSuffix(line, "}]}]}\n") || resp.header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v", resp)
	}
}
