package node

import (
	"sync/atomic"
	"testing"
)

// A credit is released at the moment at which the only waiting message is withdrawn. It
// must not be counted twice.
func TestGiveMeetsWithdraw(t *testing.T) {
	var c credits
	c.init(new(atomic.Int64), 1)
	if !c.acquire(&message{}) || c.acquire(&message{}) {
		t.Fatal("there is one credit")
	}
	c.available.Add(1) // give has counted it and is about to look for a waiting message
	c.withdraw(func(*message) bool { return true })
	if m := c.nextWaiting(); m != nil {
		t.Fatal("nobody waits any more")
	}
	if !c.acquire(&message{}) {
		t.Error("the credit is gone")
	}
	if c.acquire(&message{}) {
		t.Error("there are two credits")
	}
}
