package lnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RouteEntry is one entry of the "routes" string: nets that are reached through
// gateways (lnet-wire 3.8, lnetctl 13.2).
//
//	routes  = entry { ";" entry }                      or one entry per line; # comments
//	entry   = net [ hops ] gateway { gateway }         separated by blanks
//	gateway = nid [ ":" priority ]
//
// "tcp[1-3] 2 10.0.0.[1,2]@tcp:1". Nets and NIDs may have groups in brackets
// that stand for several texts: "[" item { "," item } "]", where an item is
// any text, or lo "-" hi [ "/" stride ] for numbers.
type RouteEntry struct {
	// Net is the remote net as written, with its groups.
	Net string
	// Hops is 1 to 255, or 0 if none are given.
	Hops uint8
	// Gateways are at least one.
	Gateways []GatewaySpec
}

// GatewaySpec is one gateway of a RouteEntry.
type GatewaySpec struct {
	// NID is as written, with its groups.
	NID string
	// Priority of the route; 0 is the best, and what is meant by none.
	Priority uint32
}

// Route is one way to a remote net.
type Route struct {
	Net     Net
	Gateway NID
	// Hops is 1 to 255, or 0 if it is not known.
	Hops uint8
	// Priority of the route; 0 is the best.
	Priority uint32
}

// maxRoutes is how many routes a "routes" string may stand for; a few brackets
// stand for any number of them.
const maxRoutes = 1 << 16

var (
	errHops        = errors.New("not 1 to 255")
	errPriority    = errors.New("not a decimal number of 32 bits")
	errNoGateway   = errors.New("no gateway")
	errLoRoute     = errors.New("lo needs no route and is no gateway")
	errGatewayNID  = errors.New("not a NID of a gateway")
	errManyRoutes  = fmt.Errorf("stands for more than %d routes", maxRoutes)
	errEmptyInList = errors.New("empty item in brackets")
)

// ParseRoutes lists the routes of a "routes" string, all nets of an entry with
// all its gateways. A gateway that is an NID of this very node means that the
// node routes, which is for the caller to find out.
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

// ParseRouteEntries reads a "routes" string but leaves shorthand alone, which
// RouteEntry.Routes resolves and checks.
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

// parseGateway splits the priority off. A colon behind the net is that of the
// priority; without a net, one of several colons belongs to an IPv6 address.
func parseGateway(s string) (GatewaySpec, error) {
	g := GatewaySpec{NID: s}
	at := strings.LastIndexByte(s, '@')
	net := at + 1
	if end := strings.IndexByte(s, '>'); at >= 0 && end > at { // of a net such as "<17:3>"
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

// isDigits tells what can only be a number of hops.
func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// String is the entry as ParseRouteEntries reads it.
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

// Routes lists the routes that the entry stands for, by net and then by
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

// routesError puts the right word for what is too many.
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

// textGroup is the groupParser of routes: an item that is no range of numbers
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
			if a, err = p.texts(10, limit-len(all)); err != nil {
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

// isProgression tells numbers with a dash from other texts.
func isProgression(s string) bool {
	return strings.Contains(s, "-") && strings.Trim(s, "0123456789-/") == ""
}
