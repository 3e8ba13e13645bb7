package console

import (
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a node that refuses where others obey, when a batch is run and stopped and the node is removed,
// then a batch that runs on one node is running, and a node that is already stopped or removed counts as
// a success.
//
// selftest 7.3 (3), 7.6 (1)-(2)
func TestWhatIsASuccess(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		odd, gone := obedient(1), obedient(1)
		s.act("10.0.0.11", obedient(1))
		s.act("10.0.0.12", func(q message.Request) []byte {
			b := odd(q)
			v, ok := q.(*message.BatchRequest)
			switch {
			case !ok:
				return b
			case v.Op == message.BatchStop:
				return (&message.BatchReply{Header: v.Header, Session: v.Session, Status: message.Status(syscall.EPERM)}).Append(nil)
			}
			return (&message.BatchReply{Header: v.Header, Session: v.Session, Status: message.ENOMEM}).Append(nil)
		})
		s.session([2]string{"c", "11-12"})
		q := pingTest()
		q.To = "c"
		s.add(q)
		r, err := s.Run(s.ctx, key, "batch", 0)
		if err != nil || r.OK() || r.Succeeded != 1 || r.Refused != 1 || r.Errno != syscall.ENOMEM {
			t.Errorf("run: %+v, %v", r, err)
		}
		if b, err := s.Batch(key, "batch"); err != nil || !b.Running {
			t.Errorf("a batch that one node runs: %+v, %v", b, err)
		}
		v, err := s.Query(s.ctx, key, "batch", QueryOptions{})
		if err != nil || v.Idle != 1 || v.Failed != 1 {
			t.Errorf("query: %+v, %v", v, err)
		}
		if b, err := s.Batch(key, "batch"); err != nil || !b.Running {
			t.Errorf("a batch of which one node does not tell: %+v, %v", b, err)
		}
		if r, err := s.Stop(s.ctx, key, "batch", false); err != nil || !r.OK() || r.Nodes[1].Status != syscall.EPERM {
			t.Errorf("stop: %+v, %v", r, err)
		}
		if b, err := s.Batch(key, "batch"); err != nil || b.Running {
			t.Errorf("a batch that was stopped: %+v, %v", b, err)
		}
		// Its group is used by no test.
		s.act("10.0.0.13", func(q message.Request) []byte {
			if _, ok := q.(*message.RemoveSessionRequest); ok {
				return (&message.RemoveSessionReply{Header: message.NewHeader(1), Session: message.NoSession, Status: message.ESRCH}).Append(nil)
			}
			return gone(q)
		})
		s.group("free", "13")
		if r, err := s.DeleteGroup(s.ctx, key, "free"); err != nil || !r.OK() || r.Nodes[0].Status != syscall.ESRCH {
			t.Errorf("delete: %+v, %v", r, err)
		}
	})
}
