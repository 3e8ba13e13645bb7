package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// listError is the error of an invalid list of NIDs. It has lnetctl's message, and the details that lnetctl does
// not print.
type listError struct {
	text   string
	errno  int // 0 means -22
	detail error
}

func (e *listError) Error() string { return e.text }
func (e *listError) Unwrap() error { return e.detail }

// tooMany returns the error of a list with too many NIDs.
func tooMany(detail error) error {
	return &listError{text: "specifies more NIDs than allowed", errno: -int(syscall.E2BIG), detail: detail}
}

// expandTargets returns the NIDs that operands stand for, in order (lnetctl 12.2). Each operand is a
// comma-separated list that may contain ranges and host names. More than limit NIDs are an error.
func (p *program) expandTargets(ctx context.Context, operands []string, limit int) ([]string, error) {
	var targets []string
	for _, operand := range operands {
		for _, item := range splitList(operand) {
			if item == "" {
				continue
			}
			more, err := p.expandTarget(ctx, item, limit)
			if err != nil {
				return nil, err
			}
			targets = append(targets, more...)
			if len(targets) > limit {
				return nil, tooMany(nil)
			}
		}
	}
	if len(targets) == 0 {
		return nil, &listError{text: "no valid NIDs in string"}
	}
	return targets, nil
}

func (p *program) expandTarget(ctx context.Context, item string, limit int) ([]string, error) {
	if strings.Contains(item, "*") {
		return nil, &listError{text: "asterisk not allowed in nidstring"}
	}
	address, network, ok := strings.Cut(item, "@")
	if !ok {
		return nil, &listError{
			text:   "no valid NIDs in string",
			detail: fmt.Errorf("%s has no net: write %s@tcp, or the net that you mean", item, item),
		}
	}
	invalid := func(err error) error { return &listError{text: "invalid NID in nidstr", detail: err} }
	if isHostName(address) {
		n, err := named(p, network, lnet.ParseNet)
		if err != nil {
			return nil, invalid(err)
		}
		nid, err := p.resolve(ctx, address, n)
		if err != nil {
			return nil, invalid(err)
		}
		return []string{nid.String()}, nil
	}
	if id, err := named(p, item, lnet.ParseProcessID); err == nil {
		if id.PID != lnet.PIDLustre {
			return []string{id.String()}, nil
		}
		return []string{id.NID.String()}, nil
	}
	nids, err := named(p, item, func(s string) ([]lnet.NID, error) { return lnet.ExpandNIDs(s, limit) })
	switch {
	case errors.Is(err, lnet.ErrTooMany):
		return nil, tooMany(err)
	case err != nil:
		return nil, invalid(err)
	}
	targets := make([]string, len(nids))
	for i, nid := range nids {
		targets[i] = nid.String()
	}
	return targets, nil
}

// isHostName reports whether s is a host name and not an address. A host name begins with a letter and contains
// neither a colon nor a bracket.
func isHostName(s string) bool {
	return s != "" && unicode.IsLetter(rune(s[0])) && !strings.ContainsAny(s, ":[")
}

// resolve returns the NID on the net n of a host with the given name. Its address is the first IPv4 address of
// the host or, if it does not have an IPv4 address, the first IPv6 address.
func (p *program) resolve(ctx context.Context, host string, n lnet.Net) (lnet.NID, error) {
	if !n.Type().IPAddressed() {
		return lnet.NID{}, fmt.Errorf("%s@%s: NIDs of this net cannot be written with a host name", host, n)
	}
	lookup := p.lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return lnet.NID{}, err
	}
	for _, ip := range ips {
		if ip4 := ip.To4(); ip4 != nil {
			return nidOf(n, ip4)
		}
	}
	for _, ip := range ips {
		return nidOf(n, ip)
	}
	return lnet.NID{}, errors.New(host + " has no address")
}

func nidOf(n lnet.Net, ip net.IP) (lnet.NID, error) {
	return lnet.ParseNID(ip.String() + "@" + n.String())
}

// splitList splits s at the commas that are not within brackets.
func splitList(s string) []string {
	var items []string
	depth, begin := 0, 0
	for i, c := range s {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth <= 0:
			items = append(items, strings.TrimSpace(s[begin:i]))
			begin = i + 1
		}
	}
	return append(items, strings.TrimSpace(s[begin:]))
}

// expandNIDs is like expandTargets for one list in which process IDs are not permitted.
func (p *program) expandNIDs(ctx context.Context, list string, limit int) ([]lnet.NID, error) {
	targets, err := p.expandTargets(ctx, []string{list}, limit)
	if err != nil {
		return nil, err
	}
	nids := make([]lnet.NID, len(targets))
	for k, target := range targets {
		if nids[k], err = lnet.ParseNID(target); err != nil {
			return nil, &listError{text: "invalid NID in nidstr", detail: err}
		}
	}
	return nids, nil
}

// badList prints the error of an invalid list of NIDs, and returns the exit status.
func (p *program) badList(form errorForm, err error) error {
	f := api.Fault{Code: api.CodeRequestInvalid, Errno: -22, Text: "Unable to parse nidlist: " + err.Error()}
	var list *listError
	if errors.As(err, &list) {
		if list.errno != 0 {
			f.Errno = list.errno
		}
		if list.detail != nil {
			f.Cause = list.detail.Error()
		}
	}
	if !p.json {
		f.Text = strconv.Quote(f.Text) // like lnetctl
	}
	return p.refused(form, f.Because(nil))
}
