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

// Limits on connections, which scrapers may keep open between scrapes.
const (
	connectionsPerAddress = 16
	connectionsAtOnce     = 256
)

// connections limits the number of open connections, in total and per address. When a limit is
// exceeded, the connection that has been idle longest is closed. If the limit per address is
// exceeded, only connections of that address are considered. If all of them are active, the new
// connection is closed.
type connections struct {
	mu   sync.Mutex    // guards list, and what is in it
	list []*connection // the longest idle first
}

type connection struct {
	net.Conn
	address string
	idle    bool // no request is active
}

// note is the ConnState hook of http.Server.
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

// enter adds a connection. If a limit is exceeded, it removes a connection and returns it.
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

// cut closes a connection immediately. tls.Conn.Close would send an alert first and wait for a peer
// that does not read.
func cut(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	_ = conn.Close()
}

// addressOf returns the address under which a client is counted.
func addressOf(hostPort string) string {
	a, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return hostPort
	}
	return limit.SourceOf(a.Addr()).String()
}
