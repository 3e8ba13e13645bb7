package node

import (
	"time"

	"github.com/lnetd/lnetd/discovery"
)

// HoldDiscovery keeps discovery busy, so that what comes for it waits, until the
// function that it returns is called.
func (n *Node) HoldDiscovery() (release func()) {
	busy, done := make(chan struct{}), make(chan struct{})
	n.discoverer.post(func(*discovery.Machine, time.Duration) {
		close(busy)
		<-done
	})
	<-busy
	return func() { close(done) }
}
