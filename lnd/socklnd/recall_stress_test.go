package socklnd

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// tally records, by number, how messages ended and how often they arrived.
type tally struct {
	mu   sync.Mutex
	ends map[uint64][]error
	came map[uint64]int
}

// counted is a message that reports to a tally.
type counted struct {
	tx    lnd.Tx
	tally *tally
	under *sync.WaitGroup
}

// Sent implements lnd.Sender.
func (c *counted) Sent(_ *lnd.Tx, err error) {
	c.tally.mu.Lock()
	id := c.tx.Header.HdrData
	c.tally.ends[id] = append(c.tally.ends[id], err)
	first := len(c.tally.ends[id]) == 1
	c.tally.mu.Unlock()
	if first {
		c.under.Done()
	}
}

// TestRecallAmidWritesAndDeaths: given messages of many senders, when they are recalled while
// connections fill, close and are reopened, until the interface closes, then each message ends
// exactly once, arrives at most once, and does not arrive if it was recalled.
func TestRecallAmidWritesAndDeaths(t *testing.T) {
	const senders, each = 8, 400
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		from, to := start(t, m.use), start(t, m.use)
		all := &tally{ends: map[uint64][]error{}, came: map[uint64]int{}}
		to.onArrival(func(a *arrival) error {
			all.mu.Lock()
			all.came[a.header.HdrData]++
			slow := all.came[a.header.HdrData] == 1 && a.header.HdrData%97 == 0
			all.mu.Unlock()
			if slow {
				time.Sleep(time.Millisecond) // until the stream is full
			}
			a.drop()
			return nil
		})
		var under sync.WaitGroup
		var sending sync.WaitGroup
		for s := range uint64(senders) {
			sending.Go(func() {
				rng := rand.New(rand.NewPCG(2, s))
				for k := range uint64(each) {
					size := rng.IntN(20_000)
					c := &counted{tally: all, under: &under}
					c.tx = lnd.Tx{Header: putHeader(from.NID(), to.NID(), size), To: to.id(), Payload: memory.Of(make([]byte, size)), Done: c}
					c.tx.Header.HdrData = 1 + s*each + k
					under.Add(1)
					from.Send(&c.tx)
					switch third := rng.Uint64N(3); rng.IntN(200) {
					case 0:
						from.Disconnect(to.NID())
					case 1:
						to.Disconnect(from.NID())
					case 2, 3, 4, 5, 6, 7:
						from.Recall(to.NID(), func(m *lnd.Tx) bool { return m.Header.HdrData%3 == third })
					case 8, 9, 10, 11, 12, 13:
						time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
					}
				}
			})
		}
		sending.Wait()
		go from.Recall(lnet.NID{}, func(m *lnd.Tx) bool { return m.Header.HdrData%2 == 0 })
		from.stop()
		under.Wait()
		to.stop()

		back := 0
		for id := uint64(1); id <= senders*each; id++ {
			ends, came := all.ends[id], all.came[id]
			recalled := len(ends) > 0 && errors.Is(ends[0], lnd.ErrRecalled)
			if recalled {
				back++
			}
			if len(ends) != 1 || came > 1 || recalled && came > 0 {
				t.Errorf("message %d ended with %v and arrived %d times", id, ends, came)
			}
		}
		t.Logf("%d of %d were recalled, %d arrived", back, senders*each, len(all.came))
	})
}
