package config

import (
	"math"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// gatewaysMax bounds the gateways that one entry names by ranges.
const gatewaysMax = 1024

// Route is a way to a remote net (lnetctl 9.2).
type Route struct {
	Net     lnet.Net
	Gateway lnet.NID
	node.RouteOptions
	// Where is the place in the file, "name:line: key".
	Where string
}

// addRoute adds a route for each gateway of an item of "route". Keys that describe
// a state, and those of old releases, are passed over.
func (c *Config) addRoute(at place) {
	var net, gateway *place
	var o node.RouteOptions
	good := true
	for _, m := range at.members(false) {
		ok := true
		switch m.key {
		case "net":
			net = &m.value
		case "gateway":
			gateway = &m.value
		case "hop":
			o.Hops, ok = m.value.hops()
		case "priority":
			o.Priority, ok = m.value.priority()
		}
		good = good && ok
	}
	for _, needed := range []struct {
		key   string
		value *place
	}{{"net", net}, {"gateway", gateway}} {
		if needed.value == nil {
			at.missing(needed.key)
			good = false
		}
	}
	if !good {
		return
	}
	to, ok := net.net()
	gateways, valid := gateway.nids(gatewaysMax)
	if !ok || !valid {
		return
	}
	if to.Type() == lnet.TypeLO {
		net.wrong("%s is no remote net", to)
		return
	}
	for _, g := range gateways {
		if g.IsLoopback() || g.Net() == to {
			gateway.wrong("%s cannot be a gateway to %s", g, to)
			return
		}
		c.Routes = append(c.Routes, Route{Net: to, Gateway: g, RouteOptions: o, Where: at.where()})
	}
}

// hops reads a hop count; -1, and its unsigned form, stand for none.
func (p place) hops() (uint32, bool) {
	n, ok := p.anyNumber()
	switch {
	case !ok:
		return 0, false
	case n == -1, n == math.MaxUint32:
		return 0, true
	case n < 1 || n > lnet.HopsMax:
		p.wrong("%d is not in 1 to %d", n, lnet.HopsMax)
		return 0, false
	}
	return uint32(n), true
}
