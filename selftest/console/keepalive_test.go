package console

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given nodes with any session timeout, when no command comes, then each is asked before its timeout, and
// not much more often than necessary.
//
// selftest 7.7 (1), 11 (4)
func TestNodesAreAskedInTime(t *testing.T) {
	for _, timeout := range []time.Duration{1, 2, 5, 8, 9, 11, 16, 31, 100} {
		timeout *= time.Second
		for _, late := range []time.Duration{0, 3 * time.Second, 7900 * time.Millisecond} {
			t.Run(fmt.Sprint(timeout, late), func(t *testing.T) {
				onStage(t, 0, func(t *testing.T, s *stage) {
					var mu sync.Mutex
					var contacts []time.Time
					answer := obedient(1)
					s.act("10.0.0.1", func(q message.Request) []byte {
						mu.Lock()
						defer mu.Unlock()
						contacts = append(contacts, time.Now())
						if q, ok := q.(*message.MakeSessionRequest); ok {
							answer(q)
							r := message.MakeSessionReply{
								Header: message.NewHeader(1), Session: q.Session, Timeout: uint32(timeout / time.Second),
							}
							return r.Append(nil)
						}
						return answer(q)
					})
					s.session()
					time.Sleep(late) // keep-alive checks have begun
					s.group("g", "1")
					watched := min(5*timeout, 250*time.Second) // a session without a command lives for 300 s
					time.Sleep(watched)
					mu.Lock()
					defer mu.Unlock()
					for k, at := range append(contacts, time.Now())[1:] {
						if gap := at.Sub(contacts[k]); gap >= timeout {
							t.Errorf("not asked for %v", gap)
						}
					}
					if n := len(contacts); n > 1+int(2*watched/timeout) {
						t.Errorf("asked %d times in %v", n, watched)
					}
				})
			})
		}
	}
}

// Given a node that does not answer a keep-alive request, then another node with a short timeout is still
// asked in time.
//
// selftest 7.7 (1)
func TestANodeThatIsSilentHoldsUpNoOther(t *testing.T) {
	// The silent node is asked just before the other is due, or just when the other joins.
	for name, row := range map[string]struct {
		silent, other time.Duration // session timeouts
		apart         time.Duration // between the joins
	}{
		"at once":  {2 * time.Second, time.Second, 850 * time.Millisecond},
		"meantime": {16 * time.Second, 2 * time.Second, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 0, func(t *testing.T, s *stage) {
				answer := func(timeout time.Duration, then func(q message.Request) []byte) func(q message.Request) []byte {
					return func(q message.Request) []byte {
						if q, ok := q.(*message.MakeSessionRequest); ok {
							then(q)
							r := message.MakeSessionReply{
								Header: message.NewHeader(1), Session: q.Session, Timeout: uint32(timeout / time.Second),
							}
							return r.Append(nil)
						}
						return then(q)
					}
				}
				s.act("10.0.0.1", answer(row.silent, func(message.Request) []byte { return nil }))
				var mu sync.Mutex
				var contacts []time.Time
				obey := obedient(1)
				s.act("10.0.0.2", answer(row.other, func(q message.Request) []byte {
					mu.Lock()
					defer mu.Unlock()
					contacts = append(contacts, time.Now())
					return obey(q)
				}))
				s.session()
				s.group("silent", "1")
				time.Sleep(row.apart)
				s.group("other", "2")
				time.Sleep(20 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				for k, at := range append(contacts, time.Now())[1:] {
					if gap := at.Sub(contacts[k]); gap >= row.other {
						t.Errorf("not asked for %v", gap)
					}
				}
			})
		})
	}
}
