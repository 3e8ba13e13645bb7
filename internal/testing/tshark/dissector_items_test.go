//go:build !race

package tshark

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// The functions below return the items that the dissector should show for values that our decoders have returned.

func (i *item) dec(name string, v any)      { *i = append(*i, fmt.Sprintf("%s=%d", name, v)) }
func (i *item) hex8(name string, v uint8)   { *i = append(*i, fmt.Sprintf("%s=0x%02x", name, v)) }
func (i *item) hex16(name string, v uint16) { *i = append(*i, fmt.Sprintf("%s=0x%04x", name, v)) }
func (i *item) hex32(name string, v uint32) { *i = append(*i, fmt.Sprintf("%s=0x%08x", name, v)) }
func (i *item) hex64(name string, v uint64) { *i = append(*i, fmt.Sprintf("%s=0x%016x", name, v)) }
func (i *item) nid(name string, n lnet.NID) {
	text := n.String()
	if n.IsZero() {
		text = "0@<0:0>"
	}
	*i = append(*i, name+"="+text)
}

func payloadLine(size int, sum uint32) string {
	return fmt.Sprintf("lnetmsg.payload=%d bytes %08x", size, sum)
}

// asked has the handles of pings, whose REPLYs contain ping info.
type asked map[lnet.Handle]bool

func (a *asked) add(u *recording.Unit) {
	if *a == nil {
		*a = asked{}
	}
	if u.IsPing() {
		(*a)[u.Header.Handle] = true
	}
}

// unitItems returns the items of one unit of a TCP stream.
func unitItems(t testing.TB, u *recording.Unit, pings *asked) []item {
	t.Helper()
	var i item
	switch u.Kind {
	case recording.KindRequest:
		i.hex32("lnetacceptor.acr_magic", lnet.MagicAcceptor)
		i.dec("lnetacceptor.acr_version", u.Request.Version)
		i.nid("lnetacceptor.acr_nid", u.Request.NID)
		return []item{i}
	case recording.KindHello:
		return []item{helloItem(&u.Hello)}
	}
	var items []item
	if u.Version.Framed() {
		items = append(items, frameItem(u.Frame))
	}
	if u.Kind == recording.KindNoop {
		return items
	}
	info := u.IsPush() || u.Header.Type == lnet.MsgReply && (*pings)[u.Header.Handle]
	return append(items, messageItems(t, &u.Header, u.Payload, info)...)
}

func helloItem(h *protocol.Hello) (i item) {
	magic := uint32(lnet.MagicProto)
	if h.Version == protocol.V1 {
		magic = lnet.MagicTCP
	}
	i.hex32("socklnd.magic", magic)
	i.dec("socklnd.version", uint32(h.Version))
	i.nid("socklnd.src_nid", h.Src)
	if h.Version != protocol.V1 {
		i.nid("socklnd.dst_nid", h.Dst)
	}
	i.dec("socklnd.src_pid", uint32(h.SrcPID))
	if h.Version != protocol.V1 {
		i.dec("socklnd.dst_pid", uint32(h.DstPID))
	}
	i.hex64("socklnd.src_incarnation", h.SrcIncarnation)
	if h.Version != protocol.V1 {
		i.hex64("socklnd.dst_incarnation", h.DstIncarnation)
	}
	i.dec("socklnd.ctype", int32(h.Type))
	if h.Version != protocol.V1 {
		i.dec("socklnd.nips", len(h.IPs))
	}
	for _, ip := range h.IPs {
		i = append(i, "socklnd.ip="+ip.String())
	}
	return i
}

func frameItem(f protocol.Frame) (i item) {
	request := "socklnd.zc_request"
	if f.Type == protocol.FrameNoop {
		request = "socklnd.zc_first"
	}
	i.hex32("socklnd.type", f.Type)
	i.hex32("socklnd.csum", f.Checksum)
	i.dec(request, f.Request)
	i.dec("socklnd.zc_ack", f.Ack)
	return i
}

// messageItems returns the items of an LNet message. info reports whether the payload is ping info.
func messageItems(t testing.TB, h *lnet.Header, payload []byte, info bool) []item {
	t.Helper()
	i := headerItem(h)
	if len(payload) == 0 {
		return []item{i}
	}
	i = append(i, payloadLine(len(payload), crc32.ChecksumIEEE([]byte(hex.EncodeToString(payload)))))
	if !info {
		return []item{i}
	}
	p, err := lnet.DecodePingInfo(payload, lnet.InterfacesMax)
	if err != nil {
		t.Fatal(err)
	}
	return []item{i, pingItem(&p)}
}

func headerItem(h *lnet.Header) (i item) {
	i.nid("lnetmsg.dest_nid", h.Dest)
	i.nid("lnetmsg.src_nid", h.Src)
	i.dec("lnetmsg.dest_pid", uint32(h.DestPID))
	i.dec("lnetmsg.src_pid", uint32(h.SrcPID))
	i.dec("lnetmsg.type", uint32(h.Type))
	i.dec("lnetmsg.payload_length", h.PayloadLength)
	i.hex64("lnetmsg.interface_cookie", h.Handle.Interface)
	i.hex64("lnetmsg.object_cookie", h.Handle.Object)
	if h.Type != lnet.MsgReply {
		i.hex64("lnetmsg.match_bits", h.MatchBits)
	}
	switch h.Type {
	case lnet.MsgAck:
		i.dec("lnetmsg.mlength", h.Length)
	case lnet.MsgPut:
		i.hex64("lnetmsg.hdr_data", h.HdrData)
		i.dec("lnetmsg.ptl_index", h.Portal)
		i.dec("lnetmsg.offset", h.Offset)
	case lnet.MsgGet:
		i.dec("lnetmsg.ptl_index", h.Portal)
		i.dec("lnetmsg.src_offset", h.Offset)
		i.dec("lnetmsg.sink_length", h.Length)
	}
	return i
}

func pingItem(p *lnet.PingInfo) (i item) {
	i.hex32("lnetping.pi_magic", lnet.MagicPing)
	i.hex32("lnetping.pi_features", uint32(p.Features))
	for bit, name := range []string{
		"base", "ni_status", "rte_disabled", "multi_rail", "discovery", "large_addr", "primary_large", "metadata",
	} {
		i.dec("lnetping."+name, uint32(p.Features)>>bit&1)
	}
	small, size := 1, 0
	for _, ni := range p.NIs {
		if !ni.NID.IsLarge() {
			small++
		}
	}
	if p.Features&lnet.FeatLargeAddr != 0 {
		size = 16 + 16*small + 24*(len(p.NIs)+1-small)
	}
	i.dec("lnetping.pi_pid", uint32(p.PID))
	i.dec("lnetping.pi_nnis", small)
	i.nid("lnetping.ns_nid", lnet.LoopbackNID)
	i.dec("lnetping.sequence", p.Seq)
	i.dec("lnetping.ns_msg_size", size)
	for _, ni := range p.NIs {
		if ni.NID.IsLarge() {
			i.hex32("lnetping.ns_status", uint32(ni.Status))
			i.nid("lnetping.ns_nid", ni.NID)
			continue
		}
		i.nid("lnetping.ns_nid", ni.NID)
		i.hex32("lnetping.ns_status", uint32(ni.Status))
		i.dec("lnetping.ns_msg_size", 0)
	}
	for _, m := range p.Metadata {
		i.nid("lnetping.metadata_nid", m.NID)
	}
	return i
}
