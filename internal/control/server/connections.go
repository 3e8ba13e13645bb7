package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
)

// connectionsMax bounds the connections that clients have at once; where there are few file
// descriptors, half of those that peers leave free do. It leaves room
// for more than all the requests of one user that may wait (requestsAtOnce of
// each kind).
const connectionsMax = 1024

// connections are those of the server's clients. They are bounded in all: when
// there is one too many, the user that has the most of them loses the one whose
// client has let the server wait for the longest time. So whoever does not read
// its answers is in nobody's way but its own, and a new request gets through.
type connections struct {
	most   int        // how many there may be
	mu     sync.Mutex // guards all and byUser, and what is in them
	all    map[net.Conn]*connection
	byUser map[int]int
}

// connection is one of them. A nil connection is nobody's that is known.
type connection struct {
	table *connections
	net.Conn
	user int // the client's UID
	// waits is since when the server waits for the client, zero: it does not.
	waits time.Time
}

func newConnections(most int) *connections {
	return &connections{most: most, all: map[net.Conn]*connection{}, byUser: map[int]int{}}
}

// anybody is the user of a connection that does not say whose it is.
const anybody = -1

type connectionKey struct{}

// opened takes a connection in: http.Server.ConnContext.
func (t *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{table: t, Conn: conn, user: anybody, waits: time.Now()}
	if cred, ok := api.Credentials(conn); ok {
		c.user = int(cred.Uid)
	}
	if victim := t.add(c); victim != nil {
		_ = victim.Close()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// add returns the connection that has to go, if one has.
func (t *connections) add(c *connection) (victim *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[c.Conn] = c
	t.byUser[c.user]++
	if len(t.all) <= t.most {
		return nil
	}
	for _, o := range t.all {
		if o.waits.IsZero() {
			continue
		}
		if victim == nil || t.byUser[o.user] > t.byUser[victim.user] ||
			t.byUser[o.user] == t.byUser[victim.user] && o.waits.Before(victim.waits) {
			victim = o
		}
	}
	t.drop(victim.Conn)
	return victim
}

// changed hears of a connection's end: http.Server.ConnState.
func (t *connections) changed(conn net.Conn, s http.ConnState) {
	if s != http.StateClosed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(conn)
}

// drop forgets a connection. t.mu is held.
func (t *connections) drop(conn net.Conn) {
	c := t.all[conn]
	if c == nil {
		return
	}
	delete(t.all, conn)
	if t.byUser[c.user]--; t.byUser[c.user] == 0 {
		delete(t.byUser, c.user)
	}
}

// connectionOf is the connection that a request came by.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// owner is the user whose connection it is.
func (c *connection) owner() int {
	if c == nil {
		return anybody
	}
	return c.user
}

// serving notes that the client waits for the server, waiting that the server
// waits for the client from now on.
func (c *connection) serving() { c.note(time.Time{}) }

func (c *connection) waiting() { c.note(time.Now()) }

func (c *connection) note(since time.Time) {
	if c != nil {
		c.table.mu.Lock()
		c.waits = since
		c.table.mu.Unlock()
	}
}
