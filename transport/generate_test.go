package transport

import (
	"net/netip"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// Generators of valid values for property tests.

func genSmallNID() *rapid.Generator[lnet.NID] {
	return rapid.Custom(func(t *rapid.T) lnet.NID {
		typ := rapid.SampledFrom([]lnet.NetType{lnet.TypeTCP, lnet.TypeO2IB, lnet.TypeKFI, lnet.TypeGIP}).Draw(t, "type")
		net := lnet.MakeNet(typ, rapid.Uint16().Draw(t, "number"))
		return rapid.SampledFrom([]lnet.NID{
			lnet.NIDFromNumber(net, rapid.Uint32().Draw(t, "address")), lnet.LoopbackNID,
		}).Draw(t, "nid")
	})
}

func genLargeNID() *rapid.Generator[lnet.NID] {
	return rapid.Custom(func(t *rapid.T) lnet.NID {
		typ := rapid.SampledFrom([]lnet.NetType{lnet.TypeTCP, lnet.TypeO2IB, lnet.TypeEFA}).Draw(t, "type")
		var a [16]byte
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))
		return lnet.NIDFromIP(lnet.MakeNet(typ, rapid.Uint16().Draw(t, "number")), netip.AddrFrom16(a))
	})
}

// genAddress generates an address whose fields are possible in a text. If ofTM is set, a TM can have its
// portal and PID.
func genAddress(ofTM bool) *rapid.Generator[Address] {
	return rapid.Custom(func(t *rapid.T) Address {
		a := Address{
			NID: rapid.OneOf(genSmallNID(), genLargeNID()).Draw(t, "nid"),
			PID: lnet.PIDLustre, Portal: rapid.Uint32Range(1, lnet.Portals-1).Draw(t, "portal"),
			TMID: rapid.Uint16Range(1, MaxTMID).Draw(t, "tmid"),
		}
		if !ofTM {
			a.PID = lnet.PID(rapid.Uint32().Draw(t, "pid"))
			a.Portal = rapid.Uint32().Draw(t, "any portal")
			a.TMID = rapid.Uint16Range(1, Dynamic).Draw(t, "any tmid")
		}
		return a
	})
}

func genPassive() *rapid.Generator[Passive] {
	return rapid.Custom(func(t *rapid.T) Passive {
		a := genAddress(true).Draw(t, "address")
		return Passive{
			Address:   a,
			MatchBits: MakeMatchBits(a.TMID, rapid.Uint64Range(1, MaxCounter).Draw(t, "counter")),
			Queue:     rapid.SampledFrom([]QueueType{PassiveBulkRecv, PassiveBulkSend}).Draw(t, "queue"),
			Size:      rapid.IntRange(1, lnet.MTU).Draw(t, "size"),
		}
	})
}
