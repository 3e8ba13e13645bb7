package message

import (
	"bytes"
	"testing"
)

// AppendRefusal encodes a reply of the service with only a status and a session.
func TestRefusalsAreReplies(t *testing.T) {
	id := SessionID{NID: 0x20000_0a000001, Stamp: 5}
	for _, order := range []Order{LittleEndian, BigEndian} {
		h := Header{Order: order, Version: Version, Features: 1}
		for _, c := range []struct {
			of    Service
			reply interface{ Append([]byte) []byte }
		}{
			{ServiceDebug, &DebugReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceMakeSession, &MakeSessionReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceRemoveSession, &RemoveSessionReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceBatch, &BatchReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceTest, &TestReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceStat, &StatReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceJoin, &JoinReply{Header: h, Status: EPROTO, Session: id}},
			{ServiceBRW, &BRWReply{Header: h, Status: EPROTO}},
			{ServicePing, &PingReply{Header: h, Status: EPROTO}},
		} {
			if got, want := AppendRefusal(nil, h, c.of, EPROTO, id), c.reply.Append(nil); !bytes.Equal(got, want) {
				t.Errorf("%s, %v:\n% x, want\n% x", c.of, order, got, want)
			}
		}
	}
}
