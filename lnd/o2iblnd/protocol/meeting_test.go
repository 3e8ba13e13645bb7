package protocol

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Two sides with any limits and versions, each of which may remember an earlier life of the other,
// connect to each other. After a few attempts they agree on parameters within the limits of both,
// or fail if no parameters are possible (o2iblnd 6, 12.3).
//
// o2iblnd 6 (4)-(7), 12.3, 8 (2)-(3)
func TestAnyTwoMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stamps := rapid.Uint64Range(1, 3)
		ours := Self{NID: nid1, Stamp: stamps.Draw(t, "our stamp"), Depth: rapid.IntRange(8, MaxDepth).Draw(t, "our depth"),
			Fragments: rapid.IntRange(1, MaxFragments).Draw(t, "our fragments")}
		theirs := Self{NID: nid2, Stamp: stamps.Draw(t, "their stamp"), Depth: rapid.IntRange(1, MaxDepth).Draw(t, "their depth"),
			Fragments: rapid.IntRange(1, MaxFragments).Draw(t, "their fragments")}
		us := remembered(t, "we", &theirs)
		them := remembered(t, "they", &ours)
		us.V1 = rapid.Bool().Draw(t, "we speak V1")
		listener := Listener{NIs: []Self{theirs}, V1: rapid.Bool().Draw(t, "they speak V1")}
		connected := rapid.Bool().Draw(t, "they have connections")
		var request, call, ack Message
		for range 6 {
			us.Request(&ours, nid2, &request)
			b, err := request.Append(nil, rapid.SampledFrom([]binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}).Draw(t, "order"))
			if err != nil {
				t.Fatal(err)
			}
			_, r, err := listener.Judge(1023, b, &call)
			ok := err == nil
			if ok {
				r, ok = them.Accept(&call, &theirs, connected)
			}
			if ok {
				s2 := theirs.Agree(&call, rapid.IntRange(1, int(call.Params.Depth)).Draw(t, "device"), &ack)
				s1, err := us.Connected(&request, &ack)
				if err != nil {
					t.Fatal(err)
				}
				agree(t, s1, s2, &ours, &theirs)
				return
			}
			connected = false // they have been closed
			d := us.Rejected(time.Time{}, Rejection{Request: &request, Status: cmConsumer, Data: r.Append(nil, binary.LittleEndian), Waiting: true})
			if !d.Redial {
				if theirs.Depth >= MinDepth {
					t.Fatalf("given up: %v", d.Failure)
				}
				return
			}
		}
		t.Fatalf("no end: %+v", request)
	})
}

// remembered returns what one side may remember of the other.
func remembered(t *rapid.T, who string, of *Self) (p Peering) {
	switch rapid.IntRange(0, 3).Draw(t, who+" remember") {
	case 1:
		p.Version, p.Stamp = V2, of.Stamp
	case 2:
		p.Version, p.Stamp = V2, of.Stamp+7
	case 3:
		p.Version, p.Stamp = V1, of.Stamp+7
	}
	return p
}

// agree checks that two sessions are the ends of one connection.
func agree(t *rapid.T, s1, s2 Session, ours, theirs *Self) {
	switch {
	case s1.Version != s2.Version, s1.Depth != s2.Depth, s1.Fragments != s2.Fragments,
		s1.Self != s2.Peer, s2.Self != s1.Peer, s1.SelfStamp != s2.PeerStamp, s2.SelfStamp != s1.PeerStamp,
		s1.SelfStamp != ours.Stamp, s2.SelfStamp != theirs.Stamp:
		t.Fatalf("%+v and %+v", s1, s2)
	case s1.Depth < 1, s1.Version == V2 && s1.Depth > min(ours.Depth, theirs.Depth), s1.Version == V1 && s1.Depth > V1Depth,
		s1.Fragments < 1, s1.Fragments > min(ours.Fragments, theirs.Fragments, MaxOffered):
		t.Fatalf("%+v, of limits %+v and %+v", s1, ours, theirs)
	}
}
