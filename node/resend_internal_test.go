package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Given messages that wait to be resent, when some are withdrawn, then the length in
// Activity is that of the others, in every state of the queue.
func TestResendQueueKnowsItsLength(t *testing.T) {
	var q resendQueue
	messages := make([]*message, 5)
	for k := range messages {
		messages[k] = &message{}
	}
	content := func(all messageQueue) (out []*message) {
		for m := all.pop(); m != nil; m = all.pop() {
			out = append(out, m)
		}
		return out
	}
	check := func(when string, got, want []*message, left int64) {
		t.Helper()
		if !cmp.Equal(got, want, cmp.Comparer(func(a, b *message) bool { return a == b })) {
			t.Errorf("%s: %d messages came out, want %d others", when, len(got), len(want))
		}
		if n := q.length.Load(); n != left {
			t.Errorf("%s: length %d, want %d", when, n, left)
		}
	}
	only := func(some ...*message) func(*message) bool {
		return func(m *message) bool {
			for _, s := range some {
				if m == s {
					return true
				}
			}
			return false
		}
	}
	for k, m := range messages {
		if !q.push(m) {
			t.Fatalf("message %d is refused", k)
		}
	}
	check("pushed", nil, nil, 5)
	check("none withdrawn", content(q.withdraw(only())), nil, 5)
	check("two withdrawn", content(q.withdraw(only(messages[1], messages[4]))), []*message{messages[1], messages[4]}, 3)
	check("one withdrawn", content(q.withdraw(only(messages[0]))), messages[:1], 2)
	check("taken", content(q.take()), messages[2:4], 0)
	check("taken from nothing", content(q.take()), nil, 0)
	q.push(messages[0])
	check("closed", content(q.close()), messages[:1], 0)
	if q.push(messages[1]) {
		t.Error("a closed queue accepts a message")
	}
	check("refused", nil, nil, 0)
}
