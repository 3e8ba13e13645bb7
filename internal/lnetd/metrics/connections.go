package metrics

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnd/limit"
)

// Maximum numbers of open connections, per client address and in total. Scrapers may keep connections open
// between scrapes.
const (
	connectionsPerAddress = 16
	connectionsAtOnce     = 256
)

// connections limits the number of open connections, in total and per client address. If a new connection
// exceeds a limit, the connection that has been idle for the longest time is closed. If it exceeds the limit
// per address, this is a connection from the same address. If no other connection is idle, the new one is
// closed.
type connections struct {
	mu   sync.Mutex    // guards list and its elements
	list []*connection // the idle ones in the order in which they became idle
}

type connection struct {
	net.Conn
	address string
	idle    bool // no request is in progress
}

// note records the new state of a connection, and closes a connection if there are too many. It is the
// ConnState hook of http.Server.
func (c *connections) note(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	k := slices.IndexFunc(c.list, func(o *connection) bool { return o.Conn == conn })
	var tooMany *connection
	switch {
	case s == http.StateNew:
		tooMany = c.enter(conn)
	case k < 0: // it was closed because of a limit
	case s == http.StateActive:
		c.list[k].idle = false
	case s == http.StateIdle:
		o := c.list[k]
		o.idle = true
		c.list = append(slices.Delete(c.list, k, k+1), o)
	default:
		c.list = slices.Delete(c.list, k, k+1)
	}
	c.mu.Unlock()
	if tooMany != nil {
		cut(tooMany.Conn)
	}
}

// enter adds a new connection to the list. If a limit is exceeded now, it removes one connection from the
// list and returns it, and the caller must close it. Otherwise it returns nil.
func (c *connections) enter(conn net.Conn) *connection {
	address := addressOf(conn.RemoteAddr().String())
	own := func(o *connection) bool { return o.address == address }
	c.list = append(c.list, &connection{Conn: conn, address: address, idle: true})
	count := 0
	for _, o := range c.list {
		if own(o) {
			count++
		}
	}
	crowded := count > connectionsPerAddress
	if !crowded && len(c.list) <= min(connectionsAtOnce, limit.DescriptorReserve()/4) {
		return nil
	}
	k := slices.IndexFunc(c.list, func(o *connection) bool { return o.idle && (!crowded || own(o)) })
	out := c.list[k] // the new connection, if no other is idle
	c.list = slices.Delete(c.list, k, k+1)
	return out
}

// cut closes a connection without waiting. The Close method of a TLS connection would first send an alert,
// and wait if the client does not read.
func cut(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	_ = conn.Close()
}

// addressOf returns the address to which the limits per address apply for a client at hostPort. Several
// clients may share it (see limit.SourceOf).
func addressOf(hostPort string) string {
	a, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return hostPort
	}
	return limit.SourceOf(a.Addr()).String()
}
