package selection

import (
	"errors"
	"sync"
	"testing"
)

// Choices run while NIs are added and removed, peers are replaced and rules change.
//
// selection 3 (6)
func TestChooseWhileViewsChange(t *testing.T) {
	w := newFixture(t)
	w.local("A1", "A2", "O1")
	w.multiRail("B1", "B2", "PO")
	w.peer(Identity{}, "B3")
	r, lone := w.to("B1"), w.to("B3")
	views := make(chan View, 1)
	views <- w.view

	var choosers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		choosers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case v := <-views:
					views <- v
					for _, r := range []Request{r, lone} {
						d, err := v.Choose(&r)
						if err != nil && !errors.Is(err, ErrUnreachable) {
							t.Error(err)
							return
						}
						if err == nil {
							d.Commit()
						}
					}
				}
			}
		})
	}
	for k := range 100 {
		if k%2 == 0 {
			w.local("A1", "O1")
			w.multiRail("B2", "B1")
		} else {
			w.local("O1", "A1", "A2")
			w.multiRail("B1", "B2", "PO")
		}
		if err := w.rule([]string{"A1", "tcp", ""}[k%3], []string{"B1", "", "B2"}[k%3], "", 0, 0); err != nil && !errors.Is(err, ErrExists) {
			t.Error(err)
		}
		if k%5 == 4 {
			w.policies.DeleteAll()
			w.apply()
		}
		w.nis["A1"].Health.Store(int32(k))
		<-views
		views <- w.view
	}
	close(stop)
	choosers.Wait()
}
