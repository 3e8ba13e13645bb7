package verbstest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Harness is what the suite needs of an implementation.
type Harness struct {
	// New makes a world.
	New func(t *testing.T) *World
	// Bubble runs f, in a testing/synctest bubble if the implementation can.
	Bubble func(t *testing.T, f func(t *testing.T))
	// Patience is how long something that must happen may take.
	Patience time.Duration
}

// World is two processes that reach each other.
type World struct {
	A, B         verbs.Provider
	AddrA, AddrB netip.Addr
	// Port is the first of twenty that are free.
	Port uint16
	// Foreign is an address that is not this machine's, Plain a local one without a device,
	// Nobody one of the network that nobody has.
	Foreign, Plain, Nobody netip.Addr
	// Victim starts a process that runs Serve at addr, which is B's, and returns when that
	// is ready. kill ends it as kill -9 does.
	Victim func(t *testing.T, addr netip.AddrPort, s Service) (kill func())
	// Close ends the world. If the test has not failed, it checks that nothing is left of the
	// processes.
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
