package socklnd

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd"
)

// TestTxQueueIsTwoQueues checks that after any operations a txQueue behaves as a queue of urgent
// messages followed by a queue of all others.
func TestTxQueueIsTwoQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q txQueue
		var urgent, others []*lnd.Tx
		model := func() []*lnd.Tx { return slices.Concat(urgent, others) }
		list := func(m *lnd.Tx) *[]*lnd.Tx {
			if m.Urgent {
				return &urgent
			}
			return &others
		}
		var popped []*lnd.Tx // since the last pushFront, which returns them, the last one first
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				serial++
				m := &lnd.Tx{Urgent: rapid.Bool().Draw(t, "urgent"), ReplyLength: serial}
				q.push(m)
				*list(m) = append(*list(m), m)
			},
			"pop": func(t *rapid.T) {
				if q.len() == 0 {
					t.Skip("empty")
				}
				m, first := q.peek(), q.pop()
				if want := model()[0]; m != want || first != want {
					t.Fatalf("message %d is first, want %d", first.ReplyLength, want.ReplyLength)
				}
				*list(m) = (*list(m))[1:]
				popped = append(popped, m)
			},
			"pushFront": func(*rapid.T) {
				for _, m := range slices.Backward(popped) {
					q.pushFront(m)
					*list(m) = slices.Insert(*list(m), 0, m)
				}
				popped = nil
			},
			"withdraw": func(t *rapid.T) {
				divisor := rapid.IntRange(1, 3).Draw(t, "divisor")
				match := func(m *lnd.Tx) bool { return m.ReplyLength%divisor == 0 }
				var want []*lnd.Tx
				for _, m := range model() {
					if match(m) {
						want = append(want, m)
					}
				}
				urgent, others = slices.DeleteFunc(urgent, match), slices.DeleteFunc(others, match)
				if got := q.withdraw(match); !slices.Equal(got, want) {
					t.Fatalf("withdrew %v, want %v", got, want)
				}
			},
			"takeAll": func(t *rapid.T) {
				want := model()
				urgent, others = nil, nil
				if got := q.takeAll(); !slices.Equal(got, want) {
					t.Fatalf("%v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				if q.len() != len(model()) || q.urgent != len(urgent) {
					t.Fatalf("%d messages, %d urgent, want %d and %d", q.len(), q.urgent, len(model()), len(urgent))
				}
			},
		})
	})
}
