package job

import (
	"math/rand/v2"

	"github.com/lnetd/lnetd/lnet"
)

const (
	// userPID is set in PIDs of applications. The three bits below are 0 (mpilnd B.4).
	userPID = 1 << 31
	pidBits = 28
	// addressBits is the number of bits of a client's address below the octet that is 0.
	addressBits = 24
)

// Slot returns the slot of the application with a PID: the bits above the rank in the addresses of its clients
// (mpilnd B.4). 0 is not a slot; Start rejects such a PID and asks for another one.
func Slot(pid lnet.PID, rankBits int) uint32 { return uint32(pid) & (1<<(addressBits-rankBits) - 1) }

// clientNID returns the NID of a client.
func clientNID(net lnet.Net, pid lnet.PID, rank, rankBits int) lnet.NID {
	return lnet.NIDFromNumber(net, Slot(pid, rankBits)<<rankBits|uint32(rank))
}

// isClient reports whether a NID has the form of a client's.
func isClient(nid lnet.NID) bool { return !nid.IsLarge() && nid.Number()>>addressBits == 0 }

// validPID reports whether an application can have a PID.
func validPID(pid lnet.PID, rankBits int) bool {
	return pid.IsApplication() && Slot(pid, rankBits) != 0
}

// randomPID returns a PID for an application without proxies.
func randomPID() lnet.PID { return lnet.PID(userPID | rand.Uint32N(1<<pidBits)) }
