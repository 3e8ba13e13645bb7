package capture

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// PayloadMax is the maximum of Filter.Payload.
const PayloadMax = 64 << 10

// filterMax is the maximum number of items of one part of a filter.
const filterMax = 64

// Filter selects messages, and what is recorded of them. A message must match one item of each list that is not empty.
type Filter struct {
	// NIDs match the source, the destination, the NI or the neighbour.
	NIDs []NIDs
	// Nets match the net of the source, the destination or the NI.
	Nets []lnet.Net
	// Portals has a bit for each portal, and 0 means all. ACKs and REPLYs have no portal.
	Portals uint64
	// Types has a bit for each lnet.MsgType, and 0 means all.
	Types uint8
	// Payload is the maximum number of bytes of payload to record, 0 to PayloadMax.
	Payload int
	// Count, if not 0, is the number of messages after which the capture ends.
	Count uint64
	// Duration, if not 0, is the time after which the capture ends.
	Duration time.Duration
}

// NIDs is a set of NIDs: a single one, or those that match a pattern.
type NIDs struct {
	one     lnet.NID
	pattern lnet.Pattern
}

// ParseNIDs parses a NID or a pattern of NIDs, such as 10.0.0.[1-9]@tcp.
func ParseNIDs(s string) (NIDs, error) {
	if nid, err := lnet.ParseNID(s); err == nil && !nid.IsAny() {
		return NIDs{one: nid}, nil
	}
	p, err := lnet.ParsePattern(s)
	if err != nil {
		return NIDs{}, err
	}
	if !p.HasAddress() {
		return NIDs{}, fmt.Errorf("%q has no address; use *@NET for all NIDs of a net", s)
	}
	return NIDs{pattern: p}, nil
}

func (n *NIDs) has(nid lnet.NID) bool {
	if !n.one.IsZero() {
		return nid == n.one
	}
	return n.pattern.MatchNID(nid)
}

// Options are the parts of a filter as text. An empty text means that the part selects everything, or the default.
type Options struct {
	NIDs, Nets, Portals, Types string // lists with commas
	Payload, Count, Duration   string // numbers, and a duration such as 10s
}

// OptionError is the error of ParseFilter.
type OptionError struct {
	Option string // the name of the option
	Err    error
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *OptionError) Unwrap() error { return e.Err }

// ParseFilter returns the filter that the options describe. Any error is an *OptionError.
func ParseFilter(o Options) (f Filter, _ error) {
	for _, part := range []struct {
		name, text string
		add        func(item string) error
	}{
		{"nid", o.NIDs, func(s string) error {
			n, err := ParseNIDs(s)
			f.NIDs = append(f.NIDs, n)
			return err
		}},
		{"net", o.Nets, func(s string) error {
			n, err := lnet.ParseNet(s)
			f.Nets = append(f.Nets, n)
			return err
		}},
		{"portal", o.Portals, func(s string) error {
			n, err := number(s, lnet.Portals-1)
			f.Portals |= 1 << n
			return err
		}},
		{"type", o.Types, func(s string) error {
			t, err := lnet.ParseMsgType(s)
			f.Types |= 1 << t
			return err
		}},
	} {
		if part.text == "" {
			continue
		}
		items := splitList(part.text)
		if len(items) > filterMax {
			return Filter{}, &OptionError{part.name, fmt.Errorf("more than %d items", filterMax)}
		}
		for _, item := range items {
			if item == "" {
				return Filter{}, &OptionError{part.name, errors.New("an item of the list is empty")}
			}
			if err := part.add(item); err != nil {
				return Filter{}, &OptionError{part.name, err}
			}
		}
	}
	return f, f.parseLimits(o)
}

func (f *Filter) parseLimits(o Options) error {
	if o.Payload != "" {
		n, err := number(o.Payload, PayloadMax)
		if err != nil {
			return &OptionError{"payload", err}
		}
		f.Payload = int(n)
	}
	if o.Count != "" {
		n, err := number(o.Count, 1<<62)
		if err != nil || n == 0 {
			return &OptionError{"count", fmt.Errorf("%q is not a number above 0", o.Count)}
		}
		f.Count = n
	}
	if o.Duration != "" {
		d, err := time.ParseDuration(o.Duration)
		if err != nil || d <= 0 {
			return &OptionError{"duration", fmt.Errorf("%q is not a duration above 0, such as 10s", o.Duration)}
		}
		f.Duration = d
	}
	return nil
}

// splitList splits a list at its commas, except for those within brackets, which belong to patterns.
func splitList(s string) (items []string) {
	depth, begin := 0, 0
	for k, r := range s {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth <= 0:
			items = append(items, s[begin:k])
			begin = k + 1
		}
	}
	return append(items, s[begin:])
}

func number(s string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", s, most)
	}
	return n, nil
}

// matches reports whether the filter selects a message.
func (f *Filter) matches(m *node.Captured) bool {
	h := &m.Header
	if f.Types != 0 && f.Types&(1<<h.Type) == 0 {
		return false
	}
	if f.Portals != 0 && (h.Type != lnet.MsgPut && h.Type != lnet.MsgGet || f.Portals&(1<<h.Portal) == 0) {
		return false
	}
	if len(f.NIDs) > 0 {
		found := false
		for k := range f.NIDs {
			n := &f.NIDs[k]
			found = found || n.has(h.Src) || n.has(h.Dest) || n.has(m.NI) || n.has(m.Neighbour)
		}
		if !found {
			return false
		}
	}
	if len(f.Nets) > 0 {
		found := false
		for _, n := range f.Nets {
			found = found || h.Src.Net() == n || h.Dest.Net() == n || m.NI.Net() == n
		}
		return found
	}
	return true
}
