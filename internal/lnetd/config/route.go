package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// routesMax is the maximum number of routes that one entry with ranges may stand for.
const routesMax = 1024

// Route is a route to a remote net (lnetctl 9.2).
type Route struct {
	Net     lnet.Net
	Gateway lnet.NID
	node.RouteOptions
	// Where is the position in the file, "name:line: key".
	Where string
}

// addRoute adds the routes of an item of "route" to c: one for each combination of its nets and gateways.
// It ignores keys of old releases and keys that describe state.
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
		kind  Kind
	}{{"net", net, netText}, {"gateway", gateway, nidText}} {
		if needed.value == nil {
			at.missing(needed.key, needed.kind)
			good = false
		}
	}
	var nets []lnet.Net
	var gateways []lnet.NID
	if gateway != nil {
		var ok bool
		gateways, ok = gateway.nids(routesMax)
		good = good && ok
	}
	if net != nil {
		var ok bool
		nets, ok = net.nets(routesMax / max(len(gateways), 1))
		good = good && ok
	}
	if !good {
		return
	}
	for _, to := range nets {
		if to.Type() == lnet.TypeLO {
			net.problemf("%s is not a remote net", to).remedyf("write the net behind the gateway, for example \"net: tcp1\"")
			return
		}
		for _, g := range gateways {
			if g.IsLoopback() {
				gateway.problemf("%s cannot be a gateway to %s", g, to).remedyf("use the NID of the gateway that is on a net of this node")
				return
			}
			c.addOneRoute(Route{Net: to, Gateway: g, RouteOptions: o, Where: at.position()}, at)
		}
	}
}

// addOneRoute adds the route r, whose item is at. If the file already contains a route to the same net
// through the same gateway, that one stays, and addOneRoute adds a warning.
func (c *Config) addOneRoute(r Route, at place) {
	if at.file.routes[r.key()] {
		at.warn("the route to %s through %s occurs twice: the first one is used", r.Net, r.Gateway).remedyf("remove one of them")
		return
	}
	if at.file.routes == nil {
		at.file.routes = map[routeKey]bool{}
	}
	at.file.routes[r.key()] = true
	c.Routes = append(c.Routes, r)
}

// LeaveRoutes removes from s the routes that a node with the NIs of s cannot have. They are not errors,
// because a configuration may be written for a whole site (decisions 132). LeaveRoutes calls left for
// each route that it removes.
func (s *State) LeaveRoutes(left func(r *Route, why string)) {
	misplaced := misplacedRoutes(s.NIs)
	s.Routes = slices.DeleteFunc(slices.Clone(s.Routes), func(r Route) bool {
		why, _ := misplaced(&r)
		if why != "" {
			left(&r, why)
		}
		return why != ""
	})
}

// misplacedRoutes returns a function that checks a route for a node with the given NIs. If the node
// cannot have the route, the function returns the reason and a remedy, and otherwise empty texts. A node
// cannot have a route if the route's net is local, if its gateway is the node itself, or if the gateway
// is on the route's own net or on a net that is not local.
func misplacedRoutes(nis []NI) func(*Route) (why, remedy string) {
	local, own := map[lnet.Net]bool{}, map[lnet.NID]bool{}
	for k := range nis {
		local[nis[k].Net] = true
		own[nis[k].NID], own[nis[k].Own] = true, true
	}
	return func(r *Route) (why, remedy string) {
		switch {
		case local[r.Net]:
			return fmt.Sprintf("%s is a local net", r.Net), "delete the route, or the NIs on the net"
		case own[r.Gateway]:
			return "the gateway is this node", "delete the route"
		case r.Gateway.Net() == r.Net:
			return fmt.Sprintf("the gateway is on %s, the destination net of the route", r.Net), "use the NID of the gateway that is on a net of this node"
		case !local[r.Gateway.Net()]:
			return fmt.Sprintf("No interface configured on the same net as gateway %s", r.Gateway),
				"add an NI on " + r.Gateway.Net().String() + ", or delete the route"
		}
		return "", ""
	}
}

// hops returns the value as a number of hops. The value -1, also in its unsigned form, means that no
// number is set; hops returns 0 for it. The second result is false if hops has reported a problem.
func (p place) hops() (uint32, bool) {
	if n, err := parseWhole(p.node.Value); err == nil && (n == -1 || n == math.MaxUint32) {
		return 0, true
	}
	n, ok := p.in(api.HopsRange)
	return uint32(n), ok
}
