package shared

import "testing"

// A host that keeps entries while the ring is full delivers each of them in order, whenever the client reads:
// no wake-up is lost, of either side. The ring is small, so that it overflows all the time.
//
// transport 9.5, 9.6 (1)
func TestOverflow(t *testing.T) {
	rounds := uint32(300_000)
	if testing.Short() {
		rounds = 20_000
	}
	h, c := newPair(t, 4, 4)
	host, client := ends(h, c)
	done := make(chan error, 1)
	go func() {
		for sent := uint32(0); sent < rounds; {
			ok, err := host.out.put(sent)
			if err != nil {
				done <- err
				return
			}
			if ok {
				sent++
				continue
			}
			delay(host.random)
			h.Completions.Publish()
			h.Completions.Ring()
			delay(host.random)
			h.Completions.MarkOverflow()
			delay(host.random)
			if room, err := h.Completions.Room(); room == 0 && err == nil {
				if err := h.Submissions.WaitWakeup(); err != nil {
					done <- err
					return
				}
			}
		}
		h.Completions.Publish()
		h.Completions.Ring()
		done <- nil
	}()
	release := func() {
		if c.Completions.ReleaseAndClaim() {
			delay(client.random)
			c.Submissions.Wake(c.Submissions.ClaimAnyway())
		}
	}
	for n := range rounds {
		for {
			got, ok, err := client.in.next()
			if err != nil || ok && got != n {
				t.Fatalf("%d, not %d: %v", got, n, err)
			}
			if ok {
				break
			}
			release()
			if err := c.Completions.Wait(never); err != nil {
				t.Fatal(err)
			}
		}
		if client.random.IntN(3) == 0 {
			delay(client.random)
			release()
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
