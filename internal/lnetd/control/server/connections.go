package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// connectionsMax is the maximum number of client connections. If few file descriptors are available, the
// maximum is half of those that are not for connections to peers. connectionsMax exceeds the number of
// requests that one user can have in progress (maxRequests of each kind).
const connectionsMax = 1024

// maxAnswerBytes is the maximum size of all replies together that wait until clients read them. It
// suffices for a few of the largest replies or for thousands of usual ones. Lists of peers do not count,
// because each page is made only after the client has read the page before.
const maxAnswerBytes = 64 << 20

// connections limits the number of client connections and the total size of the replies that wait for
// clients. If a limit is exceeded, a connection of the user with the largest share is closed: the one on
// which the server has waited longest for the client. So new requests are served, and a client that does
// not read its replies does not affect other users.
type connections struct {
	maxHeld, largestUser int        // maximum number of connections, and maximum size of all replies together
	mu                   sync.Mutex // guards the fields below, and those of connections
	all                  map[net.Conn]*connection
	byUser               map[int]int // number of connections of each user
	held                 int         // size of all waiting replies
	heldByUser           map[int]int // size of the waiting replies of each user
}

// connection is a client connection. Its methods accept a nil connection, which stands for an unknown
// client.
type connection struct {
	table *connections
	net.Conn
	user int // the client's UID
	// waitingSince is when the server began to wait for the client to send or read something. It is
	// zero while the client waits for the server.
	waitingSince time.Time
	held         int // size of the reply that waits for the client
}

func newConnections(most, mostHeld int) *connections {
	return &connections{maxHeld: most, largestUser: mostHeld, all: map[net.Conn]*connection{}, byUser: map[int]int{}, heldByUser: map[int]int{}}
}

// anyUser is the user of a connection without credentials.
const anyUser = -1

type connectionKey struct{}

// opened adds a new connection to the table and closes another one if there are too many. It is the
// ConnContext hook of http.Server.
func (t *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{table: t, Conn: conn, user: anyUser, waitingSince: time.Now()}
	if cred, ok := api.Credentials(conn); ok {
		c.user = int(cred.Uid)
	}
	if victim := t.add(c); victim != nil {
		_ = victim.Close()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// add adds c to the table. If there are too many connections now, it removes one from the table and
// returns it, and the caller must close it.
func (t *connections) add(c *connection) (victim *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[c.Conn] = c
	t.byUser[c.user]++
	if len(t.all) <= t.maxHeld {
		return nil
	}
	return t.evict(t.byUser, func(*connection) bool { return true })
}

// hold records that a reply of n bytes waits for the client of c; 0 means that none does. If all replies
// together are too large now, it removes other connections from the table and returns them, and the caller
// must close them. It ignores a connection that is no longer in the table.
func (t *connections) hold(c *connection, n int) (victims []*connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[c.Conn] != c {
		return nil
	}
	t.charge(c, n)
	for t.held > t.largestUser {
		victim := t.evict(t.heldByUser, func(o *connection) bool { return o != c && o.held > 0 })
		if victim == nil {
			break // a single reply may exceed the limit
		}
		victims = append(victims, victim)
	}
	return victims
}

// charge sets the size of the reply that waits for the client of c, and updates the sums. The caller holds
// t.mu.
func (t *connections) charge(c *connection, n int) {
	t.held += n - c.held
	if t.heldByUser[c.user] += n - c.held; t.heldByUser[c.user] == 0 {
		delete(t.heldByUser, c.user)
	}
	c.held = n
}

// evict removes from the table one connection on which the server waits for the client and for which may
// returns true. It returns the connection, or nil if no connection qualifies. It chooses one of the user
// with the largest share, and of these the one on which the server has waited longest. The caller holds
// t.mu.
func (t *connections) evict(share map[int]int, may func(*connection) bool) (victim *connection) {
	for _, o := range t.all {
		if o.waitingSince.IsZero() || !may(o) {
			continue
		}
		if victim == nil || share[o.user] > share[victim.user] ||
			share[o.user] == share[victim.user] && o.waitingSince.Before(victim.waitingSince) {
			victim = o
		}
	}
	if victim != nil {
		t.drop(victim.Conn)
	}
	return victim
}

// changed removes a connection from the table when it is closed. It is the ConnState hook of http.Server.
func (t *connections) changed(conn net.Conn, s http.ConnState) {
	if s != http.StateClosed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(conn)
}

// drop removes a connection from the table. The caller holds t.mu.
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

// connectionOf returns the connection of a request, or nil if it is unknown.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// owner returns the UID of the client, or anyUser if it is unknown.
func (c *connection) owner() int {
	if c == nil {
		return anyUser
	}
	return c.user
}

// serving records that the client waits for the server, so that the connection is not evicted.
func (c *connection) serving() { c.note(time.Time{}) }

// waiting records that the server waits for the client from now on, so that the connection may be evicted.
func (c *connection) waiting() { c.note(time.Now()) }

// hold records that a reply of n bytes waits for the client; 0 means that none does. If all replies
// together are too large now, hold closes other connections.
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
		c.waitingSince = since
		c.table.mu.Unlock()
	}
}
