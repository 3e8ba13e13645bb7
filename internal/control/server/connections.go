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

// answersMax bounds the bytes of all answers that wait for their clients to read them: a few of
// the largest, or thousands of usual ones. Lists of peers do not count: a page of one is made
// when the client has read the page before.
const answersMax = 64 << 20

// connections are those of the server's clients. Their number is bounded, and so are the
// answers that they hold. When there is too much of either, the user with the largest share
// loses the connection whose client has let the server wait for the longest time. So a client
// that does not read its answers takes nothing from other users, and a new request is served.
type connections struct {
	most, mostHeld int        // connections, and bytes of answers
	mu             sync.Mutex // guards what follows, and what is in it
	all            map[net.Conn]*connection
	byUser         map[int]int // connections
	held           int         // bytes of answers
	heldBy         map[int]int // by user
}

// connection is one of them. A nil connection is of an unknown client.
type connection struct {
	table *connections
	net.Conn
	user int // the client's UID
	// waits is since when the server waits for the client, zero: it does not.
	waits time.Time
	held  int // bytes of the answer that the client has not read
}

func newConnections(most, mostHeld int) *connections {
	return &connections{most: most, mostHeld: mostHeld, all: map[net.Conn]*connection{}, byUser: map[int]int{}, heldBy: map[int]int{}}
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
	return t.evict(t.byUser, func(*connection) bool { return true })
}

// hold notes that a connection holds n bytes of an answer. It returns the connections that
// have to go. A connection that has gone holds nothing.
func (t *connections) hold(c *connection, n int) (victims []*connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[c.Conn] != c {
		return nil
	}
	t.charge(c, n)
	for t.held > t.mostHeld {
		victim := t.evict(t.heldBy, func(o *connection) bool { return o != c && o.held > 0 })
		if victim == nil {
			break // one answer may be longer
		}
		victims = append(victims, victim)
	}
	return victims
}

// charge sets what a connection holds. t.mu is held.
func (t *connections) charge(c *connection, n int) {
	t.held += n - c.held
	if t.heldBy[c.user] += n - c.held; t.heldBy[c.user] == 0 {
		delete(t.heldBy, c.user)
	}
	c.held = n
}

// evict drops one of the connections that may go: of the user with the largest share of what
// is short, the one that has waited for the longest time. It returns nil if none may go.
// t.mu is held.
func (t *connections) evict(share map[int]int, may func(*connection) bool) (victim *connection) {
	for _, o := range t.all {
		if o.waits.IsZero() || !may(o) {
			continue
		}
		if victim == nil || share[o.user] > share[victim.user] ||
			share[o.user] == share[victim.user] && o.waits.Before(victim.waits) {
			victim = o
		}
	}
	if victim != nil {
		t.drop(victim.Conn)
	}
	return victim
}

// changed removes a connection that has ended. It is an http.Server's ConnState.
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
	t.charge(c, 0)
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

// hold notes that the connection holds n bytes of an answer, and closes those that have to go.
func (c *connection) hold(n int) {
	if c == nil {
		return
	}
	for _, victim := range c.table.hold(c, n) {
		_ = victim.Close()
	}
}

func (c *connection) note(since time.Time) {
	if c != nil {
		c.table.mu.Lock()
		c.waits = since
		c.table.mu.Unlock()
	}
}
