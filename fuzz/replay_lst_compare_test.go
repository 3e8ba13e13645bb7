package fuzz

import (
	"bytes"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// These parts of selftest messages may differ (decisions 24). Everything else must be the recorded
// one, including bytes after a message's body.
const (
	// Milliseconds since a session was made: a recorded one lasts seconds.
	runningTimes allowance = "running times of sessions"
	// The number of messages that a node holds, which may include the request itself, and the
	// maximum so far: two messages at about the same time may overlap or not. All other counters
	// must be the recorded ones.
	messagesHeld allowance = "messages held"
	// The time of day in a ping.
	pingTimes allowance = "times in pings"
	// Which of the units in progress at one time gets which match bits and sequence number. At the
	// end all of them must have been used, and no others.
	idsOfUnits allowance = "match bits of units"
	// With check=simple kernels fill the first and the last word of a page. Ours
	// fills them all (selftest 5).
	simplePayload allowance = "payload of simple checks"
)

// isRequest reports whether a unit is a request of selftest.
func isRequest(u *recording.Unit) bool {
	return u.Kind == recording.KindMessage && u.Header.Type == lnet.MsgPut && len(u.Payload) == message.Size &&
		(u.Header.Portal == message.TestPortal || u.Header.Portal == message.FrameworkPortal)
}

// isReply reports whether a unit is a reply of selftest.
func isReply(u *recording.Unit) bool {
	if u.Kind != recording.KindMessage || u.Header.Type != lnet.MsgPut || u.Header.Portal != message.ReplyPortal {
		return false
	}
	_, _, err := message.Peek(u.Payload)
	return err == nil
}

// allow replaces our values by recorded ones where a difference is allowed, and returns the allowances
// that it used.
func (s *selftester) allow(want, got *recording.Unit) []allowance {
	switch {
	case isRequest(want) && isRequest(got):
		return s.allowRequest(want, got)
	case isReply(want) && isReply(got):
		return allowStat(want, got)
	}
	return s.allowBulk(want, got)
}

// allowRequest is allow for requests. It remembers their IDs.
func (s *selftester) allowRequest(want, got *recording.Unit) (used []allowance) {
	got.Payload = slices.Clone(got.Payload)
	w, g := message.ReplyID(want.Payload), message.ReplyID(got.Payload)
	s.ids[w] = g
	var pw, pg message.PingRequest
	if pw.Decode(want.Payload) == nil && pg.Decode(got.Payload) == nil && bytes.Equal(pg.Append(nil), got.Payload) {
		s.seqs[w] = pg.Seq
		s.recordedSeqs, s.ourSeqs = append(s.recordedSeqs, pw.Seq), append(s.ourSeqs, pg.Seq)
		if w != g || pw.Seq != pg.Seq {
			pg.ReplyID, pg.Seq = pw.ReplyID, pw.Seq
			used = append(used, idsOfUnits)
		}
		if pw.Seconds != pg.Seconds || pw.Nanoseconds != pg.Nanoseconds {
			pg.Seconds, pg.Nanoseconds = pw.Seconds, pw.Nanoseconds
			used = append(used, pingTimes)
		}
		pg.Append(got.Payload[:0])
	}
	return used
}

// compareIDs compares all match bits and sequence numbers that were used.
func (s *selftester) compareIDs() {
	s.p.t.Helper()
	recorded, ours := slices.Sorted(maps.Keys(s.ids)), slices.Sorted(maps.Values(s.ids))
	if diff := cmp.Diff(recorded, ours); diff != "" {
		s.p.t.Errorf("match bits: kernel (-), we (+):\n%s", diff)
	}
	slices.Sort(s.recordedSeqs)
	slices.Sort(s.ourSeqs)
	if diff := cmp.Diff(s.recordedSeqs, s.ourSeqs); diff != "" {
		s.p.t.Errorf("sequence numbers of pings: kernel (-), we (+):\n%s", diff)
	}
}

// allowStat is allow for the counters in replies to STAT.
func allowStat(want, got *recording.Unit) (used []allowance) {
	var w, g message.StatReply
	if w.Decode(want.Payload) != nil || g.Decode(got.Payload) != nil || !bytes.Equal(g.Append(nil), got.Payload) {
		return nil
	}
	if w.Framework.RunningMS != g.Framework.RunningMS {
		g.Framework.RunningMS = w.Framework.RunningMS
		used = append(used, runningTimes)
	}
	if w, g := &w.LNet, &g.LNet; *w != *g && g.MessagesAllocated <= w.MessagesAllocated+1 {
		g.MessagesAllocated, g.MessagesMax = w.MessagesAllocated, w.MessagesMax
		used = append(used, messagesHeld)
	}
	got.Payload = g.Append(nil)
	return used
}

// allowBulk is allow for bulk data with simple checks. Ours must be filled with the pattern.
func (s *selftester) allowBulk(want, got *recording.Unit) []allowance {
	if want.Kind != recording.KindMessage || want.Header.Type != got.Header.Type || bytes.Equal(want.Payload, got.Payload) {
		return nil
	}
	id := want.Header.MatchBits
	if want.Header.Type == lnet.MsgReply {
		id = s.gets[want.Header.Handle]
	}
	q, ok := s.bulk[id]
	last := len(want.Payload) - 8
	if !ok || q.Check != message.CheckSimple || len(got.Payload) != len(want.Payload) ||
		!bytes.Equal(got.Payload[:8], want.Payload[:8]) || !bytes.Equal(got.Payload[last:], want.Payload[last:]) ||
		pattern.Check(got.Payload, message.CheckFull, message.LittleEndian) != nil {
		return nil
	}
	got.Payload = want.Payload
	return []allowance{simplePayload}
}

// toOurs replaces the match bits and sequence number in a kernel's answer to a ping by ours. It reports
// whether they differ from the recorded ones.
func (s *selftester) toOurs(u *recording.Unit) bool {
	if u.Kind != recording.KindMessage || u.Header.Portal != message.ReplyPortal || u.Header.Type != lnet.MsgPut {
		return false
	}
	seq, ours := s.seqs[u.Header.MatchBits]
	id := s.ids[u.Header.MatchBits]
	var r message.PingReply
	if !ours || r.Decode(u.Payload) != nil || r.Seq == seq && id == u.Header.MatchBits {
		return false
	}
	r.Seq = seq
	u.Header.MatchBits, u.Payload = id, r.Append(nil)
	return true
}
