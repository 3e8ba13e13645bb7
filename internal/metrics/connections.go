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

// Bounds on connections, which scrapers may keep between their scrapes.
const (
	connectionsPerAddress = 16
	connectionsAtOnce     = 256
)

// connections bound those that there are, in all and for each address. When there are
// too many, that goes which has asked nothing for longest, of the same address if that
// has too many; if all are being served, the last that came.
type connections struct {
	mu   sync.Mutex    // guards list, and what is in it
	list []*connection // who has asked nothing for longer before others
}

type connection struct {
	net.Conn
	address string
	idle    bool // it has asked nothing
}

// note is an http.Server's ConnState.
func (c *connections) note(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	k := slices.IndexFunc(c.list, func(o *connection) bool { return o.Conn == conn })
	var tooMany *connection
	switch {
	case s == http.StateNew:
		tooMany = c.enter(conn)
	case k < 0: // it was one too many
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

// enter adds a connection, and takes one out, which it returns, if there are too many.
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
	out := c.list[k] // the new one at the latest
	c.list = slices.Delete(c.list, k, k+1)
	return out
}

// cut closes a connection at once. That of TLS would say goodbye first, and wait for a peer
// who does not read.
func cut(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	_ = conn.Close()
}

// addressOf is whom the address of a client counts for.
func addressOf(hostPort string) string {
	a, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return hostPort
	}
	return limit.SourceOf(a.Addr()).String()
}
