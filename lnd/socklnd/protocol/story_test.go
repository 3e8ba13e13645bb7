package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestStories runs the scripts in testdata. In each of them two sides open connections to each
// other, in a particular order. The commands:
//
//	node <name> nid=<nid> life=<incarnation> [conns=<conns per peer>]
//	dial <from> <to>      the opener takes its next step and sends its HELLO
//	accept <from> <to>    the HELLO arrives and is decided on
//	answer <from> <to>    the answer arrives and is decided on
//	open <from> <to>      all three, until no connection is missing or a pause is due
//	close <a> <b>         all connections between the two end
//	restart <name> life=<incarnation>   loses all state, and the others are not notified
//	wait <duration>       time passes
//	show                  what each side has and remembers
func TestStories(t *testing.T) {
	eachScript(t, func(t *testing.T, path string) {
		s := &story{now: noon}
		runScript(t, path, func(c command) string {
			s.out.Reset()
			if err := s.run(c); err != nil {
				t.Fatalf("%s: %v", c.verb, err)
			}
			return s.out.String()
		})
	})
}

// story is the state of a script: the clock, the sides and the connection attempts.
type story struct {
	now   time.Time
	sides []*side
	calls []*call
	out   strings.Builder
}

// side is one node, with one peer.
type side struct {
	name    string
	nid     lnet.NID
	life    uint64
	perType int

	peering    Peering
	wanted     Wanted
	met        peering.Incarnations
	backoff    peering.Backoff
	connecting bool
	accepting  int
	conns      []link
}

// link is one side's end of a connection.
type link struct {
	typ ConnType
	id  int
}

// call is a connection attempt from one side to another.
type call struct {
	from, to *side
	sent     Hello
	reply    *Hello // nil: closed without an answer
	decided  bool
	id       int
}

func (s *story) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *story) run(d command) error {
	switch d.verb {
	case "node":
		x := &side{name: d.names[0], nid: mustNID(d.values["nid"]), perType: 1}
		s.sides = append(s.sides, x)
		return x.begin(d)
	case "restart":
		return s.find(d.names[0]).begin(d)
	case "wait":
		pause, err := time.ParseDuration(d.names[0])
		s.now = s.now.Add(pause)
		return err
	case "show":
		s.show()
		return nil
	}
	from, to := s.find(d.names[0]), s.find(d.names[1])
	switch d.verb {
	case "dial":
		s.dial(from, to)
	case "accept":
		s.accept(s.call(from, to))
	case "answer":
		s.answer(s.call(from, to))
	case "open":
		for s.dial(from, to) {
			s.accept(s.call(from, to))
			s.answer(s.call(from, to))
		}
	case "close":
		from.drop(s)
		to.drop(s)
	default:
		return fmt.Errorf("unknown command %s", d.verb)
	}
	return nil
}

func (s *story) find(name string) *side {
	k := slices.IndexFunc(s.sides, func(x *side) bool { return x.name == name })
	return s.sides[k]
}

func (s *story) call(from, to *side) *call {
	k := slices.IndexFunc(s.calls, func(c *call) bool { return c.from == from && c.to == to })
	return s.calls[k]
}

// begin starts a new life of a side, with empty state.
func (x *side) begin(d command) (err error) {
	if conns := d.values["conns"]; conns != "" {
		if x.perType, err = strconv.Atoi(conns); err != nil {
			return err
		}
	}
	*x = side{name: x.name, nid: x.nid, perType: x.perType}
	x.wanted.PerType = x.perType
	x.backoff = peering.Backoff{Min: time.Second, Max: time.Minute}
	x.life, err = strconv.ParseUint(d.values["life"], 10, 64)
	return err
}

// dial performs the next step of an opener. It returns false if the opener has ended or pauses.
func (s *story) dial(from, to *side) bool {
	t, missing := from.wanted.Next()
	if !missing {
		from.connecting = false
		s.printf("%s: nothing is missing", from.name)
		return false
	}
	if from.accepting > 0 {
		from.backoff.Pause(s.now)
	}
	if !from.backoff.Ready(s.now) {
		from.connecting = false
		s.printf("%s: pauses for %v", from.name, from.backoff.Next().Sub(s.now))
		return false
	}
	from.connecting = true
	version := from.peering.Version
	if version == 0 {
		version = V3
	}
	s.calls = append(s.calls, &call{from: from, to: to, id: len(s.calls) + 1, sent: Hello{
		Version: version, Src: from.nid, Dst: to.nid, SrcPID: lnet.PIDLustre, SrcIncarnation: from.life, Type: t,
	}})
	s.printf("%s -> %s: %s %s, life %d", from.name, to.name, version, t, from.life)
	return true
}

func (s *story) accept(c *call) {
	x := c.to
	x.accepting++
	v := x.peering.Accept(Inbound{
		Hello: c.sent, Self: x.nid, Connecting: x.connecting, Conns: x.count(c.sent.Type.Invert()), Limit: x.limit(c.sent.Type),
	})
	s.printf("%s: %s", x.name, v)
	if v.Current() {
		s.meet(x, c.from, c.sent.SrcIncarnation)
	}
	reply := Hello{Version: c.sent.Version, Src: x.nid, Dst: c.from.nid, SrcPID: lnet.PIDLustre, SrcIncarnation: x.life, Type: None}
	answered := false
	switch v {
	case Register:
		reply.Type, answered = c.sent.Type.Invert(), true
		x.add(link{reply.Type, c.id})
	case RefuseStale:
		x.drop(s)
		answered = x.peering.MayRefuse()
	case Refuse, RefuseRace:
		answered = x.peering.MayRefuse()
	}
	x.accepting--
	c.decided = true
	if !answered {
		s.printf("%s -> %s: closed without an answer", x.name, c.from.name)
		return
	}
	c.reply = &reply
	s.printf("%s -> %s: %s %s, life %d", x.name, c.from.name, reply.Version, reply.Type, x.life)
}

func (s *story) answer(c *call) {
	s.calls = slices.DeleteFunc(s.calls, func(o *call) bool { return o == c })
	x := c.from
	if c.reply == nil {
		s.fail(x, "no answer")
		return
	}
	outcome, err := x.peering.Connect(Outbound{
		Want: lnet.ProcessID{NID: c.to.nid, PID: lnet.PIDLustre}, Sent: c.sent, Reply: *c.reply,
		Conns: x.count(c.sent.Type), Limit: x.perType,
	})
	if err != nil {
		s.fail(x, err.Error())
		return
	}
	s.printf("%s: %s", x.name, outcome)
	s.meet(x, c.to, c.reply.SrcIncarnation)
	switch outcome {
	case Connected:
		x.add(link{c.sent.Type, c.id})
		x.backoff.Succeed()
		return
	case Duplicate:
		x.wanted.Skip(c.sent.Type)
		return
	case Stale:
		x.drop(s)
	}
	if x.backoff.Refused() {
		if !x.wanted.Settle() {
			s.fail(x, "refused again and again")
			return
		}
		s.printf("%s: settles for what it has", x.name)
	}
	if outcome == Race {
		x.backoff.Pause(s.now)
	}
}

// meet shows x an incarnation of a peer.
func (s *story) meet(x, peer *side, incarnation uint64) {
	if x.met.Observe(incarnation) {
		s.printf("%s: %s has restarted", x.name, peer.name)
	}
}

func (s *story) fail(x *side, why string) {
	x.backoff.Fail(s.now, nil, 0)
	x.connecting = false
	s.printf("%s: fails: %s; next attempt in %v", x.name, why, x.backoff.Next().Sub(s.now))
}

func (s *story) show() {
	for _, x := range s.sides {
		var types []string
		for _, l := range x.conns {
			types = append(types, l.typ.String())
		}
		remembers := "nothing"
		if x.peering.Version != 0 {
			remembers = fmt.Sprintf("%s, life %d", x.peering.Version, x.peering.Incarnation)
		}
		s.printf("%s: %d connections [%s], remembers %s", x.name, len(types), strings.Join(types, " "), remembers)
	}
}

func (x *side) add(l link) {
	x.conns = append(x.conns, l)
	x.wanted.Add(l.typ)
	x.backoff.Reset()
}

// drop closes all connections of x.
func (x *side) drop(s *story) {
	for _, l := range x.conns {
		x.wanted.Remove(l.typ)
	}
	if len(x.conns) > 0 {
		s.printf("%s: closes %d connections", x.name, len(x.conns))
	}
	x.conns, x.peering.Version = nil, 0
}

func (x *side) count(t ConnType) int {
	n := 0
	for _, l := range x.conns {
		if l.typ == t {
			n++
		}
	}
	return n
}

// limit returns the number of connections of type t that x accepts, as the driver does.
func (x *side) limit(t ConnType) int {
	if t == Control {
		return 1
	}
	return 127
}
