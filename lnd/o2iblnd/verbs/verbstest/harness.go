package verbstest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Harness describes an implementation to the suite.
type Harness struct {
	// New creates a world.
	New func(t *testing.T) *World
	// Bubble runs f. If the implementation supports simulated time, it does so in a testing/synctest bubble.
	Bubble func(t *testing.T, f func(t *testing.T))
	// Patience is how long a test waits for an expected event before it fails.
	Patience time.Duration
}

// World is two processes that can reach each other.
type World struct {
	A, B         verbs.Provider
	AddrA, AddrB netip.Addr
	// Port is the first of twenty successive ports that are free.
	Port uint16
	// Foreign is an address of another host. Plain is a local address without an RDMA device. The third address
	// is in the network of AddrA, and no host has it.
	Foreign, Plain, Nobody netip.Addr
	// Victim starts a process that runs Serve with addr, whose address is that of B, and returns when it is
	// ready. kill kills the process, like kill -9.
	Victim func(t *testing.T, addr netip.AddrPort, s Service) (kill func())
	// Close closes the world. If the test has not failed, Close checks that the processes have released all
	// resources.
	Close func(t *testing.T)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*stage)
	}{
		{"Connect", connect},
		{"PrivateData", privateData},
		{"Reject", reject},
		{"NobodyListens", nobodyListens},
		{"NobodyThere", nobodyThere},
		{"CallDestroyedUnanswered", destroyedUnanswered},
		{"CallerGivesUp", callerGivesUp},
		{"ListenErrors", listenErrors},
		{"OrderOfCalls", orderOfCalls},
		{"Messages", messages},
		{"ManyOnOneQueue", manyOnOneQueue},
		{"Unsignalled", unsignalled},
		{"WriteMegabyte", writeMegabyte},
		{"WriteFromPieces", writeFromPieces},
		{"Inline", inline},
		{"Deferred", deferred},
		{"DeferredWhilePolling", deferredWhilePolling},
		{"ProgramsMemory", programsMemory},
		{"SendQueueFull", sendQueueFull},
		{"ReceiveQueueFull", receiveQueueFull},
		{"QueuePairTooLarge", tooLarge},
		{"NoReceiveAtFirst", noReceiveAtFirst},
		{"NoReceiveAtAll", noReceiveAtAll},
		{"RemoteKey", remoteKey},
		{"RemoteBounds", remoteBounds},
		{"LocalKey", localKey},
		{"MessageTooLong", messageTooLong},
		{"Disconnect", disconnect},
		{"DestroyConnected", destroyConnected},
		{"Fail", fail},
		{"PostAfterError", postAfterError},
		{"ProcessDies", processDies},
		{"ProcessDiesUnanswered", processDiesUnanswered},
		{"Reconnect", reconnect},
		{"EndsInOrder", endsInOrder},
		{"EndsWaits", endsWaits},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.Bubble(t, func(t *testing.T) {
				s := &stage{T: t, h: h, World: h.New(t)}
				defer s.World.Close(t)
				s.open()
				c.test(s)
				s.close()
			})
		})
	}
}
