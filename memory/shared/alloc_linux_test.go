//go:build !race

package shared

import (
	"sync"
	"testing"
	"time"
)

// Neither an entry nor a sleep allocates memory, with or without a deadline, and however the sleep ends.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	h, c := newPair(t, 4, 4)
	host, client := ends(h, c)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint32(0); host.receive(n) == nil; n++ {
			if err := host.send(n); err != nil {
				return
			}
		}
	})
	n := uint32(0)
	for name, f := range map[string]func(){
		"round trip": func() {
			if err := client.send(n); err != nil {
				t.Error(err)
			}
			if err := client.receive(n); err != nil {
				t.Error(err)
			}
			n++
		},
		"deadline": func() {
			if err := c.Completions.Wait(time.Now().Add(time.Microsecond)); err != nil {
				t.Error(err)
			}
		},
		"wake": func() {
			c.Completions.Wake()
			if err := c.Completions.Wait(never); err != nil {
				t.Error(err)
			}
		},
	} {
		if allocs := testing.AllocsPerRun(1000, f); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
	h.Shut()
	wg.Wait()
}
