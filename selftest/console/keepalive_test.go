package console

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given nodes that give a session up after whatever time, when no command comes,
// then each is asked before it would, and not much more often than needed.
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
					time.Sleep(late) // looks have begun
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
