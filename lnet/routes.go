package lnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RouteEntry is one entry of the "routes" string: nets that are reached through gateways
// (lnet-wire 3.8, lnetctl 13.2).
//
//	routes  = entry { ";" entry }                      or one entry per line; # comments
//	entry   = net [ hops ] gateway { gateway }         separated by blanks
//	gateway = nid [ ":" priority ]
//
// For example:
//
//	tcp[1-3] 2 10.0.0.[1,2]@tcp:1
//
// A net or NID may contain groups in brackets, "[" item { "," item } "]", and then stands
// for several nets or NIDs. An item is any text, or lo "-" hi [ "/" stride ] for numbers.
type RouteEntry struct {
	// Net is the remote net as it was written, with its groups.
	Net string
	// Hops is 1 to 255, or 0 if the entry has no hop count.
	Hops uint8
	// Gateways holds at least one gateway.
	Gateways []GatewaySpec
}

// GatewaySpec is one gateway of a RouteEntry.
type GatewaySpec struct {
	// NID is the gateway's NID as it was written, with its groups.
	NID string
	// Priority is the priority of the route. The default, 0, is the best.
	Priority uint32
}

// Route is a route to a remote net.
type Route struct {
	Net     Net
	Gateway NID
	// Hops is 1 to 255, or 0 if it is unknown.
	Hops uint8
	// Priority is the priority of the route; 0 is the best.
	Priority uint32
}

// maxRoutes is the maximum number of routes for which a "routes" string may stand. Without
// it, a few brackets could stand for any number of routes.
const maxRoutes = 1 << 16

var (
	errHops        = errors.New("not a number from 1 to 255")
	errPriority    = errors.New("not a decimal number of 32 bits")
	errNoGateway   = errors.New("gateway is missing")
	errLoRoute     = errors.New("lo can be neither the destination net nor the net of the gateway")
	errGatewayNID  = errors.New("not a NID that a gateway can have")
	errManyRoutes  = fmt.Errorf("expands to more than %d routes", maxRoutes)
	errEmptyInList = errors.New("empty item in brackets")
)

// ParseRoutes returns the routes for which a "routes" string stands. Each entry stands for
// one route to each of its nets through each of its gateways. If a gateway is one of the
// caller's own NIDs, the entry means that this node is a router; the caller must handle
// that case.
func ParseRoutes(s string) ([]Route, error) {
	entries, err := ParseRouteEntries(s)
	if err != nil {
		return nil, err
	}
	var routes []Route
	for i := range entries {
		more, err := entries[i].Routes()
		if err != nil {
			return nil, err
		}
		if len(routes)+len(more) > maxRoutes {
			return nil, &FieldError{What: "routes", Value: s, Err: errManyRoutes}
		}
		routes = append(routes, more...)
	}
	return routes, nil
}

// ParseRouteEntries parses a "routes" string without expanding the groups in brackets.
// RouteEntry.Routes expands them, and checks the results.
func ParseRouteEntries(s string) ([]RouteEntry, error) {
	var entries []RouteEntry
	for text := range moduleEntries(s) {
		e, err := parseRouteEntry(text)
		if err != nil {
			return nil, &FieldError{What: "route", Value: text, Err: err}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseRouteEntry(text string) (RouteEntry, error) {
	if len(text) > maxModuleString {
		return RouteEntry{}, errTooLong
	}
	fields := fieldsOf(text)
	e := RouteEntry{Net: fields[0]}
	fields = fields[1:]
	if len(fields) > 0 && isDigits(fields[0]) {
		hops, ok := parseDecimal(fields[0], math.MaxUint8)
		if !ok || hops == 0 {
			return RouteEntry{}, &FieldError{What: "hopcount", Value: fields[0], Err: errHops}
		}
		e.Hops = uint8(hops)
		fields = fields[1:]
	}
	for _, field := range fields {
		g, err := parseGateway(field)
		if err != nil {
			return RouteEntry{}, err
		}
		e.Gateways = append(e.Gateways, g)
	}
	if len(e.Gateways) == 0 {
		return RouteEntry{}, errNoGateway
	}
	return e, nil
}

// parseGateway parses a gateway with an optional priority. If s has an '@', a colon after
// the net precedes the priority. Without an '@', a single colon precedes the priority;
// several colons belong to an IPv6 address.
func parseGateway(s string) (GatewaySpec, error) {
	g := GatewaySpec{NID: s}
	at := strings.LastIndexByte(s, '@')
	net := at + 1
	if end := strings.IndexByte(s, '>'); at >= 0 && end > at { // a net such as "<17:3>"
		net = end + 1
	}
	colon := strings.IndexByte(s[net:], ':')
	if colon >= 0 && (at >= 0 || strings.Count(s, ":") == 1) {
		colon += net
		priority, ok := parseDecimal(s[colon+1:], math.MaxUint32)
		if !ok {
			return GatewaySpec{}, &FieldError{What: "priority", Value: s[colon+1:], Err: errPriority}
		}
		g = GatewaySpec{NID: s[:colon], Priority: priority}
	}
	if isDigits(g.NID) {
		return GatewaySpec{}, &FieldError{What: "gateway", Value: g.NID, Err: errGatewayNID}
	}
	return g, nil
}

// isDigits reports whether s consists of digits only. Such a field of an entry can only be
// a hop count.
func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// String returns the entry in the form that ParseRouteEntries accepts.
func (e *RouteEntry) String() string {
	b := []byte(e.Net)
	if e.Hops > 0 {
		b = append(b, ' ')
		b = strconv.AppendUint(b, uint64(e.Hops), 10)
	}
	for _, g := range e.Gateways {
		b = append(b, ' ')
		b = append(b, g.NID...)
		if g.Priority > 0 {
			b = append(b, ':')
			b = strconv.AppendUint(b, uint64(g.Priority), 10)
		}
	}
	return string(b)
}

// Routes returns the routes for which the entry stands, ordered by net and then by
// gateway.
func (e *RouteEntry) Routes() ([]Route, error) {
	routes, err := e.routes()
	if err != nil {
		return nil, &FieldError{What: "route", Value: e.String(), Err: err}
	}
	return routes, nil
}

func (e *RouteEntry) routes() ([]Route, error) {
	var nets []Net
	err := expandBrackets(e.Net, maxRoutes, textGroup, func(text string) error {
		net, err := ParseNet(text)
		if net == LoNet {
			return errLoRoute
		}
		nets = append(nets, net)
		return err
	})
	if err != nil {
		return nil, routesError(err)
	}
	var gateways []Route
	for _, g := range e.Gateways {
		limit := maxRoutes/len(nets) - len(gateways)
		err := expandBrackets(g.NID, limit, textGroup, func(text string) error {
			nid, err := parseGatewayNID(text)
			gateways = append(gateways, Route{Gateway: nid, Hops: e.Hops, Priority: g.Priority})
			return err
		})
		if err != nil {
			return nil, routesError(err)
		}
	}
	routes := make([]Route, 0, len(nets)*len(gateways))
	for _, net := range nets {
		for _, r := range gateways {
			r.Net = net
			routes = append(routes, r)
		}
	}
	return routes, nil
}

// routesError replaces ErrTooMany, whose text is about NIDs, by an error about routes.
func routesError(err error) error {
	if errors.Is(err, ErrTooMany) {
		return errManyRoutes
	}
	return err
}

func parseGatewayNID(text string) (NID, error) {
	nid, err := ParseNID(text)
	switch {
	case err != nil:
		return NID{}, err
	case nid.IsLoopback():
		return NID{}, errLoRoute
	case nid.IsAny():
		return NID{}, errGatewayNID
	}
	return nid, nil
}

// textGroup is the groupParser for routes. An item is a range of numbers, or a text that
// stands for itself.
func textGroup(_, group string, limit int) (alternatives, error) {
	var all alternatives
	for item := range strings.SplitSeq(group, ",") {
		if item == "" {
			return nil, errEmptyInList
		}
		a := alternatives{item}
		if isProgression(item) {
			p, err := parseProgression(item, 10)
			if err != nil {
				return nil, err
			}
			if (p.hi-p.lo)%p.stride != 0 {
				return nil, errNotMultiple
			}
			if a, err = p.format(10, limit-len(all)); err != nil {
				return nil, err
			}
		}
		if len(all)+len(a) > limit {
			return nil, ErrTooMany
		}
		all = append(all, a...)
	}
	return all, nil
}

// isProgression reports whether s is a range of numbers such as "1-9" or "1-9/2".
func isProgression(s string) bool {
	return strings.Contains(s, "-") && strings.Trim(s, "0123456789-/") == ""
}
