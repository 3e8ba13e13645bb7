package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// connectionsMax is the maximum number of client connections. If few file descriptors are
// available, the limit is half of those that peers leave. It exceeds the number of requests that
// one user can have waiting (maxRequests of each kind).
const connectionsMax = 1024

// maxAnswerBytes is the maximum size of all replies that wait for clients to read them: a few of the
// largest, or thousands of usual ones. Lists of peers do not count, because each page is made only
// after the client has read the page before.
const maxAnswerBytes = 64 << 20

// connections limits the number of client connections and the size of the replies that they hold.
// If a limit is exceeded, the user with the largest share loses the connection on which the server
// has waited longest for the client. A client that does not read its replies cannot affect other
// users, and new requests are served.
type connections struct {
	maxHeld, largestUser int        // limits of connections and bytes of replies
	mu                   sync.Mutex // guards what follows, and what is in it
	all                  map[net.Conn]*connection
	byUser               map[int]int // connections
	held                 int         // bytes of replies
	heldByUser           map[int]int // by user
}

// connection is a client connection. A nil connection belongs to an unknown client.
type connection struct {
	table *connections
	net.Conn
	user int // the client's UID
	// waiting is when the server started to wait for the client, or zero if it does not.
	waitingSince time.Time
	held         int // bytes of the reply that the client has not read
}

func newConnections(most, mostHeld int) *connections {
	return &connections{maxHeld: most, largestUser: mostHeld, all: map[net.Conn]*connection{}, byUser: map[int]int{}, heldByUser: map[int]int{}}
}

// anyUser is the user of a connection without credentials.
const anyUser = -1

type connectionKey struct{}

// opened adds a connection. It is the ConnContext hook of http.Server.
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

// add adds c. It returns a connection that must be closed, or nil.
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

// hold records that c holds n bytes of a reply. It returns the connections that must be closed. It
// ignores a connection that is no longer in the table.
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

// charge sets the bytes that c holds. The caller holds t.mu.
func (t *connections) charge(c *connection, n int) {
	t.held += n - c.held
	if t.heldByUser[c.user] += n - c.held; t.heldByUser[c.user] == 0 {
		delete(t.heldByUser, c.user)
	}
	c.held = n
}

// evict removes a connection for which may returns true and returns it, or nil if there is no such
// connection. It chooses the user with the largest share, and of that user the connection that has
// waited longest. The caller holds t.mu.
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

// changed removes a closed connection. It is the ConnState hook of http.Server.
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

// connectionOf returns the connection of a request.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// owner returns the UID of the client.
func (c *connection) owner() int {
	if c == nil {
		return anyUser
	}
	return c.user
}

// serving records that the client waits for the server. waiting records that the server waits for
// the client from now on.
func (c *connection) serving() { c.note(time.Time{}) }

func (c *connection) waiting() { c.note(time.Now()) }

// hold records that the connection holds n bytes of a reply, and closes the connections that exceed
// the limit.
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
