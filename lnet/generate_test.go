package lnet

import (
	"encoding/binary"
	"net/netip"

	"pgregory.net/rapid"
)

// Generators of valid values for the properties.

var namedTypes = []NetType{TypeTCP, TypeO2IB, TypeGNI, TypeGIP, TypePTLF, TypeKFI, TypeEFA, TypeBXI3F}

func genNet() *rapid.Generator[Net] {
	return rapid.Custom(func(t *rapid.T) Net {
		return MakeNet(rapid.SampledFrom(namedTypes).Draw(t, "type"), rapid.Uint16().Draw(t, "number"))
	})
}

func genSmallNID() *rapid.Generator[NID] {
	return rapid.Custom(func(t *rapid.T) NID {
		return NIDFromNumber(genNet().Draw(t, "net"), rapid.Uint32().Draw(t, "address"))
	})
}

func genLargeNID() *rapid.Generator[NID] {
	return rapid.Custom(func(t *rapid.T) NID {
		net := MakeNet(rapid.SampledFrom([]NetType{TypeTCP, TypeO2IB, TypeEFA}).Draw(t, "type"),
			rapid.Uint16().Draw(t, "number"))
		var a [16]byte
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))
		return NIDFromIP(net, netip.AddrFrom16(a))
	})
}

// genInterfaceNID generates NIDs that an interface can have.
func genInterfaceNID() *rapid.Generator[NID] { return rapid.OneOf(genSmallNID(), genLargeNID()) }

// genNID generates any NID.
func genNID() *rapid.Generator[NID] {
	return rapid.OneOf(genInterfaceNID(), rapid.SampledFrom([]NID{{}, AnyNID, LoopbackNID}))
}

func genNID4() *rapid.Generator[NID] {
	return rapid.OneOf(genSmallNID(), rapid.SampledFrom([]NID{{}, AnyNID, LoopbackNID}))
}

// genHeader generates headers of any type, with only the fields of that type.
func genHeader(nid *rapid.Generator[NID]) *rapid.Generator[Header] {
	return rapid.Custom(func(t *rapid.T) Header {
		h := Header{
			Dest: nid.Draw(t, "dest"), Src: nid.Draw(t, "src"),
			DestPID: PID(rapid.Uint32().Draw(t, "destPID")), SrcPID: PID(rapid.Uint32().Draw(t, "srcPID")),
			Type:          MsgType(rapid.OneOf(rapid.Uint32Max(5), rapid.Uint32()).Draw(t, "type")),
			PayloadLength: rapid.Uint32().Draw(t, "payloadLength"),
		}
		handle := Handle{Interface: rapid.Uint64().Draw(t, "interface"), Object: rapid.Uint64().Draw(t, "object")}
		bits, u32 := rapid.Uint64().Draw(t, "bits"), rapid.Uint32()
		switch h.Type {
		case MsgAck:
			h.Handle, h.MatchBits, h.Length = handle, bits, u32.Draw(t, "mlength")
		case MsgPut:
			h.Handle, h.MatchBits, h.HdrData = handle, bits, rapid.Uint64().Draw(t, "hdrData")
			h.Portal, h.Offset = u32.Draw(t, "portal"), u32.Draw(t, "offset")
		case MsgGet:
			h.Handle, h.MatchBits = handle, bits
			h.Portal, h.Offset, h.Length = u32.Draw(t, "portal"), u32.Draw(t, "offset"), u32.Draw(t, "sink")
		case MsgReply:
			h.Handle = handle
		case MsgHello:
			h.Incarnation, h.ConnType = bits, u32.Draw(t, "connType")
		}
		return h
	})
}

func genPingInfo() *rapid.Generator[PingInfo] {
	status := rapid.SampledFrom([]NIStatus{StatusUp, StatusDown, StatusInvalid, 7})
	return rapid.Custom(func(t *rapid.T) PingInfo {
		p := PingInfo{
			Features: FeatNIStatus | Features(rapid.Uint32().Draw(t, "features"))&^FeatLargeAddr&^FeatMetadata,
			PID:      PID(rapid.Uint32().Draw(t, "pid")),
			Seq:      rapid.Uint32().Draw(t, "seq"),
		}
		for _, nid := range rapid.SliceOfN(genSmallNID(), 0, 20).Draw(t, "small") {
			p.NIs = append(p.NIs, PingNI{nid, status.Draw(t, "status")})
		}
		for _, nid := range rapid.SliceOfN(genLargeNID(), 0, 20).Draw(t, "large") {
			p.NIs = append(p.NIs, PingNI{nid, status.Draw(t, "status")})
			p.Features |= FeatLargeAddr
		}
		for _, nid := range rapid.SliceOfN(genSmallNID(), 0, 5).Draw(t, "metadata") {
			m := PingMetadata{NID: nid}
			copy(m.Data[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "data"))
			p.Metadata = append(p.Metadata, m)
			p.Features |= FeatMetadata
		}
		return p
	})
}

// byteOrders are both byte orders, as writers and as readers.
var byteOrders = []struct {
	name   string
	append binary.AppendByteOrder
	read   binary.ByteOrder
}{
	{"little-endian", binary.LittleEndian, binary.LittleEndian},
	{"big-endian", binary.BigEndian, binary.BigEndian},
}
