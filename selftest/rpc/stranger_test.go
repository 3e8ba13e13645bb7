package rpc

import (
	"bytes"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a process that knows the IDs of a call, when it answers before the server does, PUTs into the
// bulk, and does so again after the call has ended, then its messages are ignored, and the call ends with
// the server's one answer.
//
// selftest 1 (3)
func TestOnlyWhoWasAskedIsBelieved(t *testing.T) {
	inScene(t, func(t *testing.T, s *scene) {
		stranger, _ := s.start("stranger", "10.0.0.3")
		data, forged := []byte("some data"), []byte("any other")
		forge := func(r request) {
			r.scene = &scene{t: s.t, server: stranger}
			r.put(r.bulk, forged)
			r.status(message.EINVAL)
		}
		s.play(func(r request) {
			forge(r)
			time.AfterFunc(time.Second, func() {
				r.put(r.bulk, data)
				r.status(message.OK)
			})
		})
		bulk := Bulk{Bytes: make([]byte, len(data)), Sink: true}
		if r, err := s.call(bulk); err != nil || r.Status != message.OK {
			t.Errorf("%+v, %v", r, err)
		}
		late := s.first()
		forge(late)
		late.put(late.bulk, forged)
		late.status(message.EINVAL)
		time.Sleep(time.Second)
		if !bytes.Equal(bulk.Bytes, data) {
			t.Errorf("bulk %q", bulk.Bytes)
		}
		if c := s.counts.Snapshot(); c != (message.RPCCounters{Sent: 1}) {
			t.Errorf("%+v", c)
		}
	})
}
