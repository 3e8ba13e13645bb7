package console

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a large number of joining processes, when the user adds a group, then there is room for it, and
// the number of nodes kept alive is limited.
func TestJoiningLeavesRoom(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.session()
		joined := 0
		join := func(pid int, group string) {
			from := lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, 0x0a090009), PID: lnet.PID(pid)}
			q := message.JoinRequest{Header: message.NewHeader(1), Session: message.NoSession, Group: message.NameOf(group)}
			switch r := s.join(from, &q); r.Status {
			case message.OK:
				joined++
			case message.ENOMEM:
			default:
				t.Fatalf("join: %v", r.Status)
			}
		}
		for pid := range maxGroups + 1 {
			join(pid, fmt.Sprint("theirs", pid))
		}
		if joined != maxJoinedGroups {
			t.Errorf("%d groups", joined)
		}
		for pid := range 2 * maxJoinedNodes {
			join(maxGroups+1+pid, "theirs0")
		}
		if i, err := s.ShowSession(); joined != maxJoinedNodes || i.Nodes != maxJoinedNodes || err != nil {
			t.Errorf("%d have joined, %+v, %v", joined, i, err)
		}
		s.group("mine", "1-2")
		// A deleted group makes room for others.
		if _, err := s.DeleteGroup(s.ctx, key, "theirs1"); err != nil {
			t.Fatal(err)
		}
		join(1, "theirs1")
		if joined != maxJoinedNodes+1 {
			t.Error("no room after a group was deleted")
		}
	})
}
