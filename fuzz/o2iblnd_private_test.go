package fuzz

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzO2iblndPrivate passes private data of the CM to every side that may get it: the listening side, and
// the dialling side when its request is answered or rejected. A rejection must have a reason, and every
// session must keep to what was offered.
func FuzzO2iblndPrivate(f *testing.F) {
	eachRDMA(f, func(x *recording.Transfer) {
		if x.Kind == recording.CMRequest || x.Kind == recording.CMReply {
			f.Add(x.Data, uint16(1023), 0)
		}
	})
	for _, b := range madeMessages(f) {
		f.Add(b, uint16(40000), 28)
	}
	for why := o2iblnd.Reason(0); why < 12; why++ {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			r := o2iblnd.Reject{Version: o2iblnd.V2, Why: why, Stamp: 5, Limits: o2iblnd.Params{Depth: 4, Fragments: 32, Size: 4096}}
			f.Add(r.Append(nil, order), uint16(0), 28)
			r.Version = o2iblnd.V1
			f.Add(r.Append(nil, order), uint16(0), 28)
		}
	}
	net := lnet.MakeNet(lnet.TypeO2IB, 0)
	self := o2iblnd.Self{NID: lnet.NIDFromNumber(net, 0x0a4d000c), Stamp: 0x660b33484b2f5, Depth: 8, Fragments: o2iblnd.MaxFragments}
	peer := lnet.NIDFromNumber(net, 0x0a4d000b)
	f.Fuzz(func(t *testing.T, b []byte, port uint16, status int) {
		judge(t, self, b, port)
		answer(t, self, peer, b)
		reject(t, self, peer, b, status)
	})
}

// judge passes the data to the listening side.
func judge(t *testing.T, self o2iblnd.Self, b []byte, port uint16) {
	t.Helper()
	for _, v1 := range []bool{false, true} {
		l := o2iblnd.Listener{NIs: []o2iblnd.Self{self}, Privileged: port%2 == 0, V1: v1}
		var m, ack o2iblnd.Message
		_, r, err := l.Judge(port, b, &m)
		if err != nil {
			checkO2iblndError(t, err)
			if r.Why == 0 || !r.Version.Known() {
				t.Fatalf("rejected with %+v", r)
			}
			continue
		}
		var p o2iblnd.Peering
		if r, ok := p.Accept(&m, &self, false); !ok {
			t.Fatalf("rejected with %+v", r)
		}
		s := self.Agree(&m, int(m.Params.Depth), &ack)
		if s.Depth < 1 || s.Depth > self.Depth || s.Fragments < 1 || s.Fragments > self.Fragments {
			t.Fatalf("%+v", s)
		}
		if _, err := ack.Append(nil, binary.LittleEndian); err != nil {
			t.Fatal(err)
		}
	}
}

// answer passes the data to the dialling side as an answer.
func answer(t *testing.T, self o2iblnd.Self, peer lnet.NID, b []byte) {
	t.Helper()
	var request, m o2iblnd.Message
	var p o2iblnd.Peering
	p.Request(&self, peer, &request)
	if _, err := m.Decode(b, o2iblnd.Check); err != nil {
		return
	}
	s, err := p.Connected(&request, &m)
	if err != nil {
		checkO2iblndError(t, err)
		return
	}
	if s.Peer != peer || s.Depth < 1 || s.Depth > self.Depth || s.Fragments < 1 || s.Fragments > o2iblnd.MaxOffered {
		t.Fatalf("%+v", s)
	}
}

// reject passes the data to the dialling side as a rejection. The attempts must end soon.
func reject(t *testing.T, self o2iblnd.Self, peer lnet.NID, b []byte, status int) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	var request o2iblnd.Message
	p := o2iblnd.Peering{V1: true}
	for range 30 {
		p.Request(&self, peer, &request)
		if request.Params.Depth < o2iblnd.MinDepth || request.Params.Fragments < 1 {
			t.Fatalf("offers %+v", request.Params)
		}
		d := p.Rejected(now, o2iblnd.Rejection{Request: &request, Status: status, Data: b, Waiting: true})
		if !d.Redial {
			if d.Failure == nil {
				t.Fatal("neither again nor failed")
			}
			return
		}
		now = d.At
	}
	if now.Sub(time.Unix(1_700_000_000, 0)) < 15*time.Second {
		t.Fatal("dials again and again")
	}
}
