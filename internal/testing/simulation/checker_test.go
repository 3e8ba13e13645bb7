package simulation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// stage is a world without nodes. Tests construct events and call its handlers with them. It has a PUT
// with ACK and a GET from node 0 to node 1, each with a separate MD.
type stage struct {
	*world
	put, get           *operation
	inbox, store, sink *descriptor
	source             *descriptor
}

func newStage() *stage {
	w := &world{
		scenario: newScenario(1), memory: new(Memory), trace: trace{start: time.Now()},
		byHandle: map[lnet.Handle][]*operation{},
	}
	w.rails, w.ipv6, w.oneNet = 1, false, false
	var lives []*life
	for k := range 2 {
		m := &member{w: w, index: k, nids: []lnet.NID{lnet.NIDFromNumber(w.net(0), uint32(k+1))}, lives: 1}
		w.members = append(w.members, m)
		lives = append(lives, &life{member: m, cookie: uint64(100 + k)})
	}
	s := &stage{world: w}
	handle := uint64(1)
	place := func(l *life, md portals.MD, n int) *descriptor {
		d := l.newDescriptor("md", w.memory.region(n, 1), &md)
		d.handle = lnet.Handle{Interface: l.cookie, Object: handle}
		d.portal = portalOneShot
		handle += 4
		return d
	}
	begin := func(k opKind) (*operation, *descriptor) {
		o := w.newOperation(k, w.members[1], w.members[1].nids[0])
		o.from, o.portal, o.length = lives[0], portalOneShot, 64
		o.sendBy, o.endBy = time.Second, 2*time.Second
		d := place(lives[0], portals.MD{}, 64)
		d.op, o.md, o.handle = o, d, d.handle
		w.byHandle[d.handle] = []*operation{o}
		return o, d
	}
	s.put, s.source = begin(opAcked)
	s.source.memory.fill(s.put.stream)
	s.get, s.sink = begin(opFetch)
	s.inbox = place(lives[1], portals.MD{Options: portals.OpPut}, 64)
	s.inbox.only, s.put.entry = s.put, s.inbox
	s.store = place(lives[1], portals.MD{Options: portals.OpGet}, 64)
	s.store.only, s.get.entry = s.get, s.store
	s.store.content = s.get.stream
	s.store.memory.fill(s.store.content)
	s.get.content, s.get.contentLen = s.store.content, 64
	return s
}

// arrival returns the event of o at its target.
func (s *stage) arrival(o *operation) portals.Event {
	from := lnet.ProcessID{NID: o.from.member.nids[0], PID: lnet.PIDLustre}
	e := portals.Event{
		Type: portals.EventPut, MsgType: lnet.MsgPut, Portal: o.portal, MatchBits: o.bits(), HdrData: o.hdrData(),
		Target: lnet.ProcessID{NID: o.target}, Initiator: from, Source: from, Sender: from.NID,
		Requested: o.length, Length: o.length, MD: o.entry.handle, UserPtr: o.entry, Unlinked: true,
	}
	if o.kind == opFetch {
		e.Type, e.MsgType, e.HdrData, e.Requested = portals.EventGet, lnet.MsgGet, 0, 0
	}
	return e
}

func (s *stage) sent(o *operation) portals.Event {
	return portals.Event{
		Type: portals.EventSend, MsgType: o.msgType(), Portal: o.portal, MatchBits: o.bits(),
		Target: lnet.ProcessID{NID: o.target}, Requested: o.length, Length: o.length,
		MD: o.md.handle, UserPtr: o.md,
	}
}

func (s *stage) ack() portals.Event {
	return portals.Event{
		Type: portals.EventAck, MsgType: lnet.MsgAck, MatchBits: s.put.bits(), Length: 64,
		MD: s.source.handle, UserPtr: s.source, Unlinked: true,
	}
}

func (s *stage) reply() portals.Event {
	return portals.Event{
		Type: portals.EventReply, MsgType: lnet.MsgReply, Length: 64, Requested: 64,
		MD: s.sink.handle, UserPtr: s.sink, Unlinked: true,
	}
}

// deliver writes the data that arrives and delivers the event, changed by each edit.
func (s *stage) deliver(d *descriptor, e portals.Event, edits ...func(*portals.Event)) {
	for _, edit := range edits {
		edit(&e)
	}
	switch e.Type {
	case portals.EventPut:
		s.put.stream.fill(d.memory.pieces[0].Bytes[e.Offset:e.Offset+e.Length], 0)
	case portals.EventReply:
		s.get.content.fill(d.memory.pieces[0].Bytes[:e.Length], 0)
	}
	d.HandleEvent(&e)
}

// all delivers all events of a run without faults.
func (s *stage) all() {
	s.deliver(s.source, s.sent(s.put))
	s.deliver(s.inbox, s.arrival(s.put))
	s.deliver(s.source, s.ack())
	s.deliver(s.store, s.arrival(s.get))
	s.deliver(s.sink, s.sent(s.get))
	s.deliver(s.sink, s.reply())
}

// replyWithPing delivers a REPLY to the GET whose data is ping info.
func (s *stage) replyWithPing() {
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus, PID: lnet.PIDLustre,
		NIs: []lnet.PingNI{{NID: s.get.target, Status: lnet.StatusUp}},
	}
	e := s.reply()
	e.Length = copy(s.sink.memory.pieces[0].Bytes, info.Append(nil, binary.LittleEndian))
	s.sink.HandleEvent(&e)
}

// end checks operations and memory as finish does.
func (s *stage) end() {
	for _, o := range s.ops {
		s.checkOutcome(o)
	}
	for _, d := range s.descriptors {
		d.check()
	}
}

// The checker reports every violation and accepts all correct behaviour.
func TestChecker(t *testing.T) {
	tests := []struct {
		name string
		play func(s *stage)
		want string // part of a failure; empty: no failure
	}{
		{"Faultless", func(s *stage) { s.all() }, ""},
		{"PutTwice", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.Unlinked = false })
			s.all()
		}, "delivered before"},
		{"PutAgainAfterBrokenOff", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.Unlinked, e.Err = false, errors.New("cut") })
			s.all()
		}, "delivered before: 0 times, 1 times in part"},
		{"AckedButNotDelivered", func(s *stage) {
			s.deliver(s.source, s.sent(s.put))
			s.deliver(s.source, s.ack())
		}, "acknowledged, and delivered 0 times"},
		{"AckOfAnother", func(s *stage) {
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.MatchBits = s.get.bits() })
		}, "ACK event for match bits"},
		{"AckOfAFormerLife", func(s *stage) {
			former := s.newOperation(opAcked, s.members[1], s.members[1].nids[0])
			s.byHandle[s.put.handle] = append(s.byHandle[s.put.handle], former)
			s.deliver(s.source, s.sent(s.put))
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.MatchBits = former.bits() })
			s.deliver(s.sink, s.sent(s.get))
		}, ""},
		{"AckOfTooMuch", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put))
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.Length = 65 })
		}, "ACK of 65 bytes"},
		{"SentTwice", func(s *stage) {
			s.deliver(s.source, s.sent(s.put))
			s.all()
		}, "2 SEND events"},
		{"NeverSent", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put))
			s.deliver(s.source, s.ack())
		}, "0 SEND events"},
		{"SentTooLate", func(s *stage) {
			time.Sleep(1500 * time.Millisecond)
			s.all()
		}, "after its deadline"},
		{"EndedTooLate", func(s *stage) {
			s.deliver(s.source, s.sent(s.put))
			time.Sleep(3 * time.Second)
			s.deliver(s.inbox, s.arrival(s.put))
			s.deliver(s.source, s.ack())
		}, "ended 1s after its deadline"},
		{"WrongDescriptor", func(s *stage) {
			s.deliver(s.store, s.arrival(s.put), func(e *portals.Event) { e.MD, e.UserPtr = s.store.handle, s.store })
		}, "meant for another descriptor"},
		{"WrongPortal", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.Portal++ })
		}, "wrong portal"},
		{"WrongSource", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.Source.NID = s.members[1].nids[0] })
		}, "wrong source"},
		{"NobodysPut", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.MatchBits += 100 })
		}, "of no known operation"},
		{"WrongLength", func(s *stage) {
			s.deliver(s.inbox, s.arrival(s.put), func(e *portals.Event) { e.Length = 63 })
		}, "mlength 63, not 64"},
		{"WrongPayload", func(s *stage) {
			e := s.arrival(s.put)
			s.inbox.HandleEvent(&e)
		}, "is not stream"},
		{"WrongReply", func(s *stage) {
			e := s.reply()
			s.sink.HandleEvent(&e)
		}, "REPLY event: byte 0"},
		{"EventAfterTheLast", func(s *stage) {
			s.all()
			s.deliver(s.source, s.ack())
		}, "after the last"},
		{"EventAfterTheEnd", func(s *stage) {
			s.source.owner.closed = true
			s.deliver(s.source, s.sent(s.put))
		}, "after the node's end"},
		{"OverdueThoughAnswered", func(s *stage) {
			s.deliver(s.source, s.sent(s.put))
			s.deliver(s.inbox, s.arrival(s.put))
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.Unlinked = false })
			s.deliver(s.source, portals.Event{Type: portals.EventUnlink, Unlinked: true, MD: s.source.handle, UserPtr: s.source})
		}, "unlinked as overdue"},
		{"SourceChanged", func(s *stage) {
			s.all()
			s.source.memory.pieces[0].Bytes[5]++
		}, "has changed"},
		{"WrittenBehindTheReply", func(s *stage) {
			s.get.contentLen = 60
			s.deliver(s.store, s.arrival(s.get))
			s.deliver(s.sink, s.reply(), func(e *portals.Event) { e.Length, e.Requested = 60, 60 })
			s.sink.memory.pieces[0].Bytes[61]++
		}, "byte 61 was written to"},
		{"AnswersOfTwoLives", func(s *stage) { // found by seed 16452
			former := s.newOperation(opFetch, s.members[1], s.members[1].nids[0])
			former.content, former.contentLen = s.get.content, 20
			s.byHandle[s.get.handle] = append(s.byHandle[s.get.handle], former)
			s.deliver(s.sink, s.reply(), func(e *portals.Event) { e.Length, e.Requested, e.Unlinked = 20, 20, false })
			s.all()
		}, ""},
		{"AnswerToAFormerLifesPing", func(s *stage) { // found by seed 52143
			s.sink.owner.restart = restartSameIncarnation
			s.deliver(s.sink, s.sent(s.get))
			s.replyWithPing()
			s.deliver(s.source, s.sent(s.put))
		}, ""},
		{"AckOfAFormerLifesPush", func(s *stage) {
			s.source.owner.restart = restartSameIncarnation
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.MatchBits, e.Unlinked = lnet.PingMatchBits, false })
			s.all()
		}, ""},
		{"AckOfNobodysPush", func(s *stage) {
			s.deliver(s.source, s.ack(), func(e *portals.Event) { e.MatchBits = lnet.PingMatchBits })
		}, "ACK event for match bits"},
		{"AnswerToNobodysPing", (*stage).replyWithPing, "REPLY event: 48 of 64 bytes"},
		{"WrittenBetween", func(s *stage) {
			s.all()
			s.inbox.taken = []span{{40, 24}, {0, 20}, {10, 20}}
		}, "byte 30 was written to"},
		{"WrittenOutside", func(s *stage) {
			s.all()
			s.inbox.memory.backing[guardSize+64]++
		}, "guard of"},
		{"ContentChanged", func(s *stage) {
			s.all()
			s.store.memory.pieces[0].Bytes[0]++
		}, "content has changed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				s.networkFaults = []Fault{FaultReset}
				test.play(s)
				s.end()
				found := strings.Join(s.result.Failures, "\n")
				switch {
				case test.want == "" && found != "":
					t.Errorf("found %s", found)
				case !strings.Contains(found, test.want):
					t.Errorf("found %q, not %q", found, test.want)
				}
			})
		})
	}
}

// The wall clock jumps and stands still. While it runs, it shows no time twice.
func TestWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wall
		a, b := c.now(), c.now()
		if !b.After(a) {
			t.Errorf("%v, then %v", a, b)
		}
		c.jump(-time.Hour)
		if d := b.Sub(c.now()); d < 59*time.Minute || c.hits != 1 {
			t.Errorf("jumped back by %v, seen %d times", d, c.hits)
		}
		c.freeze(a)
		time.Sleep(time.Second)
		if got := c.now(); !got.Equal(a) {
			t.Errorf("frozen at %v, shows %v", a, got)
		}
	})
}

// A seed determines the whole scenario.
func TestScenarioIsTheSeeds(t *testing.T) {
	for seed := range uint64(100) {
		if a, b := fmt.Sprintf("%+v", *newScenario(seed)), fmt.Sprintf("%+v", *newScenario(seed)); a != b {
			t.Errorf("seed %d: %s\nand %s", seed, a, b)
		}
	}
}
