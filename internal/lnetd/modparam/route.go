package modparam

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// A route is an entry of the string "routes". Net and gateway are unchanged and may have ranges.
type route struct {
	net, gateway string
	hops         int   // 0 if absent
	priority     int64 // -1 if absent
}

// maxHops is the maximum number of hops of a route.
const maxHops = math.MaxUint8

// readRoute parses an entry of "routes" in one of two syntaxes: "NET [HOPS] GATEWAY[:PRIORITY]", or
// "NET: { gateway: GATEWAY, hop: HOPS, priority: PRIORITY }".
func readRoute(entry string) (route, error) {
	read := readBlankRoute
	if strings.Contains(entry, "{") {
		read = readBraceRoute
	}
	r, err := read(entry)
	if err != nil {
		return r, fmt.Errorf("invalid route '%s': %w", entry, err)
	}
	e := lnet.RouteEntry{Net: r.net, Gateways: []lnet.GatewaySpec{{NID: r.gateway}}}
	if _, err := e.Routes(); err != nil {
		return r, fmt.Errorf("invalid route '%s': %w", entry, inner(err))
	}
	return r, nil
}

// inner returns err without the text of the entry. That text was made for a parser of package lnet and differs
// from the text that the operator has written.
func inner(err error) error {
	if field := (*lnet.FieldError)(nil); errors.As(err, &field) && field.Err != nil {
		return field.Err
	}
	return err
}

func readBlankRoute(entry string) (route, error) {
	r := route{priority: -1}
	fields := strings.Fields(entry)
	r.net, fields = fields[0], fields[1:]
	if len(fields) > 0 && strings.Trim(fields[0], "0123456789") == "" {
		var err error
		if r.hops, err = hops(fields[0]); err != nil {
			return r, err
		}
		fields = fields[1:]
	}
	switch {
	case len(fields) == 0:
		return r, fmt.Errorf("the gateway, such as 10.0.0.1@tcp, is missing after the net")
	case len(fields) > 1:
		return r, fmt.Errorf("more than one gateway: write one entry for each, or a range such as 10.0.0.[1,2]@tcp")
	}
	parsed, err := lnet.ParseRouteEntries(r.net + " " + fields[0])
	if err != nil {
		return r, inner(err)
	}
	r.gateway = parsed[0].Gateways[0].NID
	if r.gateway != fields[0] {
		r.priority = int64(parsed[0].Gateways[0].Priority)
	}
	return r, nil
}

func readBraceRoute(entry string) (r route, err error) {
	r.priority = -1
	net, list, _ := strings.Cut(entry, "{")
	list, after, closed := strings.Cut(list, "}")
	if !closed || strings.Trim(after, blanks) != "" {
		return r, fmt.Errorf("the form is NET: { gateway: NID, hop: N, priority: N }")
	}
	r.net = strings.Trim(strings.TrimSuffix(strings.Trim(net, blanks), ":"), blanks)
	if r.net == "" {
		return r, fmt.Errorf("the net before the brace is missing")
	}
	given := map[string]bool{}
	for _, member := range splitOutside(list) {
		member = strings.Trim(member, blanks)
		if member == "" {
			continue
		}
		key, value := cutMember(member)
		if given[key] {
			return r, fmt.Errorf("%s occurs twice", key)
		}
		given[key] = true
		switch key {
		case "gateway":
			r.gateway = value
		case "hop":
			r.hops, err = hops(value)
		case "priority":
			r.priority, err = priority(value)
		default:
			err = fmt.Errorf("'%s' is not gateway, hop or priority", key)
		}
		if err != nil {
			return r, err
		}
	}
	if r.gateway == "" {
		return r, fmt.Errorf("the gateway is missing between the braces")
	}
	return r, nil
}

// cutMember splits "KEY: VALUE" into the key and the value. The colon may be missing.
func cutMember(member string) (key, value string) {
	end := strings.IndexAny(member, ":"+blanks)
	if end < 0 {
		return member, ""
	}
	return member[:end], strings.Trim(strings.TrimPrefix(strings.TrimLeft(member[end:], blanks), ":"), blanks)
}

func hops(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n > maxHops {
		return 0, fmt.Errorf("hopcount %s is not within 1 to %d", text, maxHops)
	}
	return int(n), nil
}

func priority(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return -1, fmt.Errorf("priority '%s' is not a 32-bit number", text)
	}
	return int64(n), nil
}
