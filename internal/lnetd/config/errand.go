package config

import (
	"context"
	"math"
	"time"
)

// Request is a "ping" or "discover" block of a document that "import --exec" executes (lnetctl 7.6).
type Request struct {
	// Discover is set if the NIDs are discovered. Otherwise they are pinged.
	Discover bool
	// Force asks to discover a peer again even if the node's data about it is up to date.
	Force bool
	// NIDs are the targets as written, with ranges and host names.
	NIDs []string
	// Source is the local NID to ping from. If it is empty, lnetd chooses it.
	Source string
	// Timeout bounds the wait for the answer of each NID. Zero means the default.
	Timeout time.Duration
	// SeqNo is the sequence number that the document gives to the block, or nil.
	SeqNo *int64
}

var (
	pingShape = &shape{
		key: "ping", needed: [][]string{{"nids"}}, stateKeys: []string{seqNoKey},
		keys: map[string]form{"nids": numbered{scalar{nidText}}, "timeout": milliseconds, "source": scalar{nidText}},
	}
	discoverShape = &shape{
		key: "discover", needed: [][]string{{"nids"}}, stateKeys: []string{seqNoKey, "timeout", "source"},
		keys: map[string]form{"nids": numbered{scalar{nidText}}, "force": scalar{Boolean{}}},
	}
	milliseconds = scalar{Whole{1, math.MaxInt32}}
)

// ParseRequests returns the "ping" and "discover" blocks of a document in order, and ignores all other
// sections. The document is called name in messages. ParseRequests returns the same errors as
// ParseOver.
func ParseRequests(ctx context.Context, name string, data []byte) ([]Request, error) {
	r := newReading(ctx, name, nil)
	var errands []Request
	for _, doc := range r.documents(data) {
		top := (place{file: r}).child("", doc)
		if top.empty() {
			continue
		}
		for _, m := range top.members(true) {
			switch m.key {
			case "ping":
				pingShape.check(m.value, nil)
				errands = append(errands, m.value.request(false))
			case "discover":
				discoverShape.check(m.value, nil)
				errands = append(errands, m.value.request(true))
			default:
				if r.lists[m.value.node] != nil {
					m.value.eachItem(func(place) {}) // to find out whether it is valid YAML
				}
			}
		}
	}
	if _, err := r.result(); err != nil {
		return nil, err
	}
	return errands, nil
}

func (p place) request(discover bool) Request {
	e := Request{Discover: discover}
	if n, ok := p.seqNo(); ok {
		e.SeqNo = &n
	}
	named := false
	for _, m := range p.members(false) {
		switch {
		case m.key == "nids":
			named = true
			for _, at := range m.value.values() {
				if s, ok := at.textOf(nidText); ok {
					e.NIDs = append(e.NIDs, s)
				}
			}
			if m.value.isEmpty() {
				m.value.problemf("contains no NID").remedy(remedyOf(nidText, ""))
			}
		case m.key == "force" && discover:
			e.Force, _ = m.value.boolean()
		case m.key == "timeout" && !discover:
			if n, ok := m.value.number(1, math.MaxInt32); ok {
				e.Timeout = time.Duration(n) * time.Millisecond
			}
		case m.key == "source" && !discover:
			if nids, ok := m.value.nids(1); ok {
				e.Source = nids[0].String()
			}
		}
	}
	if !named {
		p.missing("nids", nidText)
	}
	return e
}
