package peering

import (
	"slices"
	"testing"
	"testing/synctest"
)

// Given an event that adds another one each time, then the next one is made by iteration, after those
// that were there before.
func TestAnOutboxDoesNotRecurse(t *testing.T) {
	var o Outbox
	var order []int
	depth, deepest := 0, 0
	number := func(k int) Event { return Event{Kind: OwnEvents, Subject: k} }
	o.Make = func(e *Event) {
		depth++
		deepest = max(deepest, depth)
		k := e.Subject.(int)
		if order = append(order, k); k < 1000 {
			o.Add(number(k + 10))
		}
		depth--
	}
	o.Put(number(1), number(2))
	if len(order) > 0 {
		t.Errorf("Put made %v", order)
	}
	o.Add(number(3))
	if deepest != 1 || !slices.Equal(order[:6], []int{1, 2, 3, 11, 12, 13}) || len(order) != 303 {
		t.Errorf("%d events, of which %d within each other, in the order %v", len(order), deepest, order[:6])
	}
}

// Given an event that takes long, then what is added meanwhile is made after it by the same goroutine,
// and Wait waits for both.
func TestAnOutboxHasOneRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outbox
		var order []string
		named := func(name string) Event { return Event{Kind: OwnEvents, Subject: name} }
		held := make(chan struct{})
		o.Make = func(e *Event) {
			if e.Subject == "long" {
				<-held
			}
			order = append(order, e.Subject.(string))
		}
		go o.Add(named("long"))
		synctest.Wait()
		o.Add(named("short")) // returns at once
		waited := false
		go func() {
			o.Wait()
			waited = true
		}()
		synctest.Wait()
		if len(order) > 0 || waited {
			t.Errorf("%v made, waited: %v", order, waited)
		}
		close(held)
		synctest.Wait()
		if !slices.Equal(order, []string{"long", "short"}) || !waited {
			t.Errorf("%v made, waited: %v", order, waited)
		}
	})
}

// Events that are made again and again need no new memory.
func TestAnOutboxAllocatesNothing(t *testing.T) {
	var o Outbox
	o.Make = func(*Event) {}
	e := Event{Kind: OwnEvents, Subject: t}
	if n := testing.AllocsPerRun(100, func() { o.Add(e, e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if left := o.spare[:cap(o.spare)]; slices.ContainsFunc(left, func(e Event) bool { return e.Subject != nil }) {
		t.Errorf("%v is kept", left)
	}
}
