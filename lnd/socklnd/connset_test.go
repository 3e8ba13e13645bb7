package socklnd

import (
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// connsOf returns one idle connection of each type in types.
func connsOf(p *peer, types ...protocol.ConnType) []*conn {
	var all []*conn
	for _, t := range types {
		all = append(all, &conn{peer: p, typ: t})
	}
	return all
}

// TestSuitability checks the two tables of socklnd 12.2: which of the existing connections a
// message is sent on.
//
// socklnd 12.2 (1)-(2)
func TestSuitability(t *testing.T) {
	const (
		untyped, control, in, out = protocol.Any, protocol.Control, protocol.BulkIn, protocol.BulkOut
		none                      = protocol.None
	)
	p := &peer{i: &Interface{driver: &Driver{}}}
	for _, c := range []struct {
		version                            protocol.Version
		have                               []protocol.ConnType
		small, large, noop, nonblockedNoop protocol.ConnType
	}{
		{protocol.V3, []protocol.ConnType{untyped, control, in, out}, control, out, control, in},
		{protocol.V4, []protocol.ConnType{control, in, out}, control, out, control, in},
		{protocol.V3, []protocol.ConnType{in, out}, out, out, in, in},
		{protocol.V3, []protocol.ConnType{control, in}, control, control, control, in},
		{protocol.V3, []protocol.ConnType{control, out}, control, out, control, control}, // a kernel closes the connection instead
		{protocol.V3, []protocol.ConnType{in}, none, none, in, in},
		{protocol.V2, []protocol.ConnType{control, in, out}, control, out, control, control},
		{protocol.V1, []protocol.ConnType{control, in}, control, control, control, control},
		{protocol.V2, []protocol.ConnType{in}, in, in, in, in},
		{protocol.V2, []protocol.ConnType{untyped}, untyped, untyped, untyped, untyped},
	} {
		s := newConnSet(c.version, connsOf(p, c.have...), false)
		for what, pair := range map[string]struct {
			got  *conn
			want protocol.ConnType
		}{
			"small":            {s.forMessage(1023, 1024), c.small},
			"large":            {s.forMessage(1024, 1024), c.large},
			"NOOP":             {s.forNoop(false), c.noop},
			"nonblocking NOOP": {s.forNoop(true), c.nonblockedNoop},
		} {
			got := none
			if pair.got != nil {
				got = pair.got.typ
			}
			if got != pair.want {
				t.Errorf("%s with %v: %s goes on %s, want %s", c.version, c.have, what, got, pair.want)
			}
		}
	}
}

// TestChoiceBetweenConnectionsOfAType checks round_robin, which decides between connections that
// have equally many bytes to write (socklnd 12.3).
//
// socklnd 12.3 (1)-(2)
func TestChoiceBetweenConnectionsOfAType(t *testing.T) {
	for _, roundRobin := range []bool{true, false} {
		d := &Driver{config: Config{RoundRobin: roundRobin}}
		conns := connsOf(&peer{i: &Interface{driver: d}}, protocol.BulkOut, protocol.BulkOut, protocol.BulkOut)
		s := newConnSet(protocol.V3, conns, false)
		used := map[*conn]int{}
		for range 30 {
			used[s.forMessage(5000, 1024)]++
		}
		for k, c := range conns {
			want := 10
			if !roundRobin {
				want = []int{30, 0, 0}[k]
			}
			if used[c] != want {
				t.Errorf("round_robin %t: connection %d used %d times, want %d", roundRobin, k, used[c], want)
			}
		}
		conns[0].queuedBytes.Store(1)
		conns[2].queuedBytes.Store(1)
		for range 5 {
			if got := s.forMessage(5000, 1024); got != conns[1] {
				t.Errorf("round_robin %t: a connection with more to write is taken", roundRobin)
			}
		}
	}
}
