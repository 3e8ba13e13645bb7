package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// router is a backend with many routes.
type router struct {
	fakeBackend
	routes []api.Route
}

func newRouter(routes int) *router {
	r := &router{}
	for k := range routes {
		r.routes = append(r.routes, api.Route{Net: lnet.MakeNet(lnet.TypeTCP, uint16(k+1)), Gateway: crowdNID(1)})
	}
	return r
}

func (r *router) Routes() []api.Route { return r.routes }

func (r *router) ChangeConfiguration(context.Context, api.ConfigurationChange) (api.ConfigurationChanged, error) {
	return api.ConfigurationChanged{After: api.Configuration{Routes: r.routes}}, nil
}

func (r *router) Described(context.Context, api.Document) (api.Described, []lnet.NID, error) {
	return api.Described{Routes: r.routes}, nil, nil
}

func (r *router) PeersOf(context.Context, []lnet.NID) iter.Seq2[api.Peer, error] {
	return func(func(api.Peer, error) bool) {}
}

// routesOver reads a reply from a connection. It returns the routes in it, or an error if the reply
// is incomplete.
func routesOver(conn net.Conn) ([]api.Route, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var reply struct {
		Routes []api.Route `json:"routes"`
		After  struct {
			Routes []api.Route `json:"routes"`
		} `json:"after"`
	}
	err = json.NewDecoder(resp.Body).Decode(&reply)
	return append(reply.Routes, reply.After.Routes...), err
}

// TestAnswersShareMemory: given memory for four answers, when ten clients send a request and do not
// read, then the answers to the last four are kept, and a client that reads gets its answer. This
// applies to questions, and to documents that are planned or described, because those answers are
// as long as the node's lists too.
func TestAnswersShareMemory(t *testing.T) {
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: lnetd\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	for name, request := range map[string]string{
		"a question":    "GET /v1/routes HTTP/1.1\r\nHost: lnetd\r\n\r\n",
		"a dry run":     post("/v1/configuration", `{"name":"d","text":"","mode":"add","dry":true}`),
		"a description": post("/v1/configuration/show", `{"name":"d","text":""}`),
	} {
		t.Run(name, func(t *testing.T) { answersShareMemory(t, request) })
	}
}

func answersShareMemory(t *testing.T, request string) {
	synctest.Test(t, func(t *testing.T) {
		const routes, readers, room = 1000, 10, 4
		b := newRouter(routes)
		whole, fault := encode(t.Context(), listOf[api.Routes](b.routes, func(_ int, r *api.Route) (api.Route, bool) { return *r, true }))
		if fault != nil {
			t.Fatal(fault)
		}
		const around = 2000 // the maximum length of an answer without its routes
		dial, end := servePipes(t, &Server{Backend: b, answers: room * (len(whole.(encoded)) + around)})
		defer end()
		ask := func() net.Conn {
			conn := dial()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(time.Second)
			return conn
		}
		var slow []net.Conn
		for range readers {
			slow = append(slow, ask())
		}
		reads := ask() // evicts one of the others
		if got, err := routesOver(reads); err != nil || len(got) != routes {
			t.Errorf("%d routes, %v", len(got), err)
		}
		var held []int
		for k, conn := range slow {
			if got, err := routesOver(conn); err == nil && len(got) == routes {
				held = append(held, k)
			}
			_ = conn.Close()
		}
		if diff := cmp.Diff([]int{7, 8, 9}, held); diff != "" {
			t.Errorf("answers that were held (-want +got):\n%s", diff)
		}
		_ = reads.Close()
	})
}

// TestWhichAnswersGo checks which connections are evicted: those of the user whose answers use the
// most memory, the longest waiting first. The memory of a connection is released when it closes. A
// single answer may be longer than the limit for all.
func TestWhichAnswersGo(t *testing.T) {
	table := newConnections(100, 100)
	now := time.Now()
	var all []*connection
	for k, user := range []int{1, 1, 1, 2} {
		ours, theirs := net.Pipe()
		defer func() { _, _ = ours.Close(), theirs.Close() }()
		c := &connection{table: table, Conn: ours, user: user, waitingSince: now.Add(time.Duration(k) * time.Second)}
		all = append(all, c)
		table.add(c)
	}
	hold := func(k, n int, want ...int) {
		t.Helper()
		got := []int{}
		for _, victim := range table.hold(all[k], n) {
			for o, c := range all {
				if c == victim {
					got = append(got, o)
				}
			}
		}
		if diff := cmp.Diff(append([]int{}, want...), got); diff != "" {
			t.Errorf("%d holds %d: evicted (-want +got):\n%s", k, n, diff)
		}
	}
	hold(3, 45)
	hold(1, 20)
	hold(0, 30)
	hold(2, 20, 0)  // connection 0 has waited longest of user 1's
	hold(0, 50)     // connection 0 has gone
	hold(1, 0)      // the client has read its answer
	hold(2, 500, 3) // the others are evicted, this one stays
	if table.held != 500 {
		t.Errorf("%d are held", table.held)
	}
	table.changed(all[2].Conn, http.StateClosed)
	hold(2, 7)
	if table.held != 0 || len(table.heldByUser) != 0 {
		t.Errorf("%d are held, %v", table.held, table.heldByUser)
	}
}

// TestFewAnswersAreMadeAtOnce checks that only a few answers are produced at the same time. A
// request whose client leaves while it waits is not answered.
func TestFewAnswersAreMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blocking{release: make(chan struct{}), begun: make(chan struct{}, 100)}
		dial, end := servePipes(t, &Server{Backend: b})
		defer end()
		var conns []net.Conn
		for range maxQueries + 2 {
			conn := dial()
			if _, err := fmt.Fprint(conn, "GET /v1/routes HTTP/1.1\r\nHost: lnetd\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			conns = append(conns, conn)
		}
		if n := len(b.begun); n != maxQueries {
			t.Errorf("%d answers are made at once, want %d", n, maxQueries)
		}
		_ = conns[maxQueries].Close()
		synctest.Wait()
		close(b.release)
		if _, err := routesOver(conns[maxQueries+1]); err != nil {
			t.Error(err)
		}
		if n := len(b.begun); n != maxQueries+1 {
			t.Errorf("%d answers were made, want %d", n, maxQueries+1)
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
}

// blocking is a backend that lists routes when release is closed.
type blocking struct {
	fakeBackend
	begun, release chan struct{}
}

func (b *blocking) Routes() []api.Route {
	b.begun <- struct{}{}
	<-b.release
	return nil
}
