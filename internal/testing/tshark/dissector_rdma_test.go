//go:build !race

package tshark

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// The dissector shows the same messages in each recording of RoCE, with the same values, as our decoders: those in
// SENDs, and the private data of connection requests, replies and rejects.
func TestDissectorOnRecordingsOfRDMA(t *testing.T) {
	for _, name := range append(recording.RDMANames(), "o2-o2ib-credits-mismatch", "o4-o2ib-two-rails") {
		t.Run(name, func(t *testing.T) {
			rec, err := recording.LoadRDMA(name)
			if err != nil {
				t.Fatal(err)
			}
			var transfers []recording.Transfer
			for _, c := range rec.Conversations {
				transfers = append(transfers, c.Transfers...)
			}
			slices.SortStableFunc(transfers, func(a, b recording.Transfer) int { return a.At.Compare(b.At) })
			var want []item
			pings, messages := asked{}, 0
			for _, x := range transfers {
				if items := transferItems(t, x, pings); items != nil {
					want = append(want, items...)
					messages++
				}
			}
			var got []item
			for _, p := range show(t, recorded(t, name)) {
				got = append(got, p.items...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("our decoding (-) and the dissector's (+):\n%s", diff)
			}
			t.Logf("%d connections, %d messages and rejects are equal", len(rec.Conversations), messages)
		})
	}
}

// transferItems returns the items of a CM message or a SEND. It returns nil for a RTU and an RDMA WRITE.
func transferItems(t testing.TB, x recording.Transfer, pings asked) []item {
	t.Helper()
	switch x.Kind {
	case recording.CMReject:
		r, err := protocol.DecodeReject(x.Data)
		if err != nil {
			t.Fatal(err)
		}
		return []item{rejectItem(&r)}
	case recording.CMRequest, recording.CMReply, recording.Sent:
		return ibItems(t, x.Data, pings)
	}
	return nil
}

// ibItems returns the items of an encoded message.
func ibItems(t testing.TB, b []byte, pings asked) []item {
	t.Helper()
	var m protocol.Message
	order, err := m.Decode(b, protocol.Check)
	if err != nil {
		t.Fatal(err)
	}
	items := []item{ibItem(&m, order.Uint32(b[8:]), order.Uint32(b[12:]))}
	switch m.Type {
	case protocol.Immediate:
		u := recording.Unit{Kind: recording.KindMessage, Header: m.LNet}
		pings.add(&u)
		info := u.IsPush() || m.LNet.Type == lnet.MsgReply && pings[m.LNet.Handle]
		return append(items, messageItems(t, &m.LNet, m.Payload[:m.LNet.PayloadLength], info)...)
	case protocol.PutReq, protocol.GetReq:
		return append(items, headerItem(&m.LNet))
	}
	return items
}

func ibItem(m *protocol.Message, nob, sum uint32) (i item) {
	i.hex32("o2iblnd.magic", protocol.Magic)
	i.hex16("o2iblnd.version", uint16(m.Version))
	i.hex8("o2iblnd.type", uint8(m.Type))
	i.dec("o2iblnd.credits", m.Credits)
	i.dec("o2iblnd.nob", nob)
	i.hex32("o2iblnd.cksum", sum)
	i.nid("o2iblnd.srcnid", m.Src)
	i.dec("o2iblnd.srcstamp", m.SrcStamp)
	i.nid("o2iblnd.dstnid", m.Dst)
	i.dec("o2iblnd.dststamp", m.DstStamp)
	switch m.Type {
	case protocol.ConnReq, protocol.ConnAck:
		i.params(m.Params)
	case protocol.PutReq:
		i.hex64("o2iblnd.cookie", uint64(m.Cookie))
	case protocol.GetReq:
		i.hex64("o2iblnd.cookie", uint64(m.Cookie))
		i.descriptor(&m.Sink)
	case protocol.PutAck:
		i.hex64("o2iblnd.src_cookie", uint64(m.Cookie))
		i.hex64("o2iblnd.dst_cookie", uint64(m.SinkCookie))
		i.descriptor(&m.Sink)
	case protocol.PutNak, protocol.PutDone, protocol.GetDone:
		i.hex64("o2iblnd.cookie", uint64(m.Cookie))
		i.dec("o2iblnd.status", m.Status)
	}
	return i
}

func (i *item) params(p protocol.Params) {
	i.dec("o2iblnd.queue_depth", p.Depth)
	i.dec("o2iblnd.max_frags", p.Fragments)
	i.dec("o2iblnd.max_msg_size", p.Size)
}

func (i *item) descriptor(d *protocol.Descriptor) {
	i.hex32("o2iblnd.key", d.Key)
	i.dec("o2iblnd.nfrags", len(d.Fragments))
	for _, f := range d.Fragments {
		i.dec("o2iblnd.frag_nob", f.Length)
		i.hex64("o2iblnd.frag_addr", f.Addr)
	}
}

func rejectItem(r *protocol.Reject) (i item) {
	i.hex32("o2iblnd.magic", protocol.Magic)
	i.hex16("o2iblnd.version", uint16(r.Version))
	i.dec("o2iblnd.why", uint8(r.Why))
	i.dec("o2iblnd.incarnation", r.Stamp)
	i.params(r.Limits)
	return i
}

// sendRoCE adds message as one SEND to a queue pair of the node at a stream's address, in RoCE v2 packets of at most
// mtu bytes. psn is the number of the first packet.
func (c *capture) sendRoCE(stream int, message []byte, mtu int, psn uint32) {
	be := binary.BigEndian
	const first, middle, last, only = 0, 1, 2, 4
	for at := 0; at < len(message); at += mtu {
		end := min(at+mtu, len(message))
		opcode := byte(middle)
		switch {
		case at == 0 && end == len(message):
			opcode = only
		case at == 0:
			opcode = first
		case end == len(message):
			opcode = last
		}
		pad := -(end - at) & 3
		b := []byte{opcode, byte(pad << 4), 0xff, 0xff, 0, 0, 0, 17}
		b = be.AppendUint32(b, psn&0xffffff)
		b = append(b, message[at:end]...)
		b = append(b, make([]byte, pad+4)...)
		c.datagram(stream, b)
		psn++
	}
}

// datagram adds a UDP datagram to the port of RoCE v2.
func (c *capture) datagram(stream int, payload []byte) {
	be := binary.BigEndian
	p := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0}
	p = be.AppendUint16(p, uint16(28+len(payload)))
	p = append(p, 0, 0, 0x40, 0, 64, 17, 0, 0)
	p = append(p, 10, 0, byte(stream>>8), byte(stream), 10, 255, 255, 254)
	p = be.AppendUint16(p, 50000)
	p = be.AppendUint16(p, 4791)
	p = be.AppendUint16(p, uint16(8+len(payload)))
	p = append(append(p, 0, 0), payload...)
	c.packet(stream, p)
}

// distinctiveIB returns messages of all types for SENDs. No two fields of a message have the same value.
func distinctiveIB(t testing.TB) []protocol.Message {
	common := protocol.Message{
		Version: protocol.V2, Credits: 7, Src: nid(t, "10.8.0.1@o2ib3"), Dst: nid(t, "10.8.0.2@o2ib3"),
		SrcStamp: 0x0102030405060708, DstStamp: 0x1112131415161718, Cookie: 0x2122232425262728,
	}
	header := distinctive(t)
	sink := protocol.Descriptor{Key: 0x31323334, Fragments: []protocol.Fragment{
		{Addr: 0x4142434445464748, Length: 4096}, {Addr: 0x5152535455565758, Length: 12},
	}}
	noop, ack, done := common, common, common
	noop.Type, noop.Version = protocol.Noop, protocol.V1
	ack.Type, ack.SinkCookie, ack.Sink = protocol.PutAck, 0x6162636465666768, sink
	done.Type, done.Status = protocol.GetDone, -61
	put, get, immediate, small := common, common, common, common
	put.Type, put.LNet = protocol.PutReq, header[1].header
	get.Type, get.LNet, get.Sink = protocol.GetReq, header[3].header, sink
	immediate.Type, immediate.LNet = protocol.Immediate, header[1].header // payload of 3000 bytes
	small.Type, small.LNet = protocol.Immediate, header[0].header
	return []protocol.Message{noop, ack, done, put, get, immediate, small}
}

// The dissector decodes messages of both byte orders, and assembles a SEND of several packets.
func TestDissectorOnMessagesOfRDMA(t *testing.T) {
	c := newCapture()
	var want []item
	psn := uint32(0xfffffe) // numbers wrap
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, m := range distinctiveIB(t) {
			b, err := m.Append(nil, order)
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == protocol.Immediate {
				b = append(b, bytes.Repeat([]byte{0x5a}, int(m.LNet.PayloadLength))...)
			}
			want = append(want, ibItems(t, b, asked{})...)
			c.sendRoCE(1, b, 1024, psn)
			psn += uint32((len(b) + 1023) / 1024)
		}
	}
	for _, passes := range [][]string{nil, {"-2"}} {
		var got []item
		for _, p := range show(t, c.write(t), passes...) {
			got = append(got, p.items...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tshark %v: our decoding (-) and the dissector's (+):\n%s", passes, diff)
		}
	}
}
