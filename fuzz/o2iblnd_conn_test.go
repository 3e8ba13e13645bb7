package fuzz

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzO2iblndConn has an established connection with requests in progress. It receives messages of a peer
// with any bodies, types and credits. Each of our messages must end once, the memory that the peer can
// make us keep must be bounded, and no RDMA may exceed our memory.
func FuzzO2iblndConn(f *testing.F) {
	eachRDMA(f, func(x *recording.Transfer) {
		if x.Kind == recording.Sent && len(x.Data) < 256 {
			f.Add(append([]byte{x.Data[6], x.Data[7], byte(len(x.Data) - 48)}, x.Data[48:]...))
		}
	})
	for _, b := range madeMessages(f) {
		f.Add(append([]byte{b[6], 0, byte(len(b) - 48)}, b[48:]...))
	}
	// Answers to our own requests.
	f.Add([]byte("\xd4\x00\x24\x00\x00\x01\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHostile(t)
		for len(b) >= 3 && h.c.State() == o2iblnd.Established {
			n := min(int(b[2]), len(b)-3)
			h.receive(b[0], b[1], b[3:3+n])
			b = b[3+n:]
		}
		h.end()
	})
}

const hostileDepth = 4

// hostile is a connection with a hostile peer.
type hostile struct {
	t       *testing.T
	c       *o2iblnd.Conn
	batch   o2iblnd.Batch
	session o2iblnd.Session
	now     time.Time
	txs     [4]o2iblnd.Tx
	done    map[*o2iblnd.Tx]bool
	waiting []*o2iblnd.Rx
	open    int // arrivals that have not ended
	buffers int
}

const hostileBytes = 4096 // of each source and sink

func newHostile(t *testing.T) *hostile {
	net := lnet.MakeNet(lnet.TypeO2IB, 0)
	h := &hostile{t: t, c: o2iblnd.NewConn(o2iblnd.Options{SendQueue: 8}), now: time.Unix(1_700_000_000, 0), done: map[*o2iblnd.Tx]bool{}}
	h.buffers = o2iblnd.ReceiveBuffers(o2iblnd.V2, hostileDepth)
	h.session = o2iblnd.Session{
		Version: o2iblnd.V2, Self: lnet.NIDFromNumber(net, 1), SelfStamp: 1, Peer: lnet.NIDFromNumber(net, 2), PeerStamp: 2,
		Depth: hostileDepth, Fragments: 256,
	}
	h.c.Accept()
	h.c.Establish(h.now, h.session, &h.batch)
	header := lnet.Header{Dest: h.session.Peer, Src: h.session.Self, Type: lnet.MsgPut, PayloadLength: hostileBytes}
	source := []o2iblnd.Segment{{Addr: 0, Length: hostileBytes / 2}, {Addr: hostileBytes, Length: hostileBytes / 2}}
	sink := o2iblnd.Descriptor{Key: 1, Fragments: []o2iblnd.Fragment{{Addr: 0, Length: hostileBytes}}}
	h.c.Put(h.now, &h.txs[0], &header, source, &h.batch)
	h.c.Put(h.now, &h.txs[1], &header, source, &h.batch)
	header.Type, header.PayloadLength, header.Length = lnet.MsgGet, 0, hostileBytes
	h.c.Get(h.now, &h.txs[2], &header, &sink, &h.batch)
	header.Type, header.Length = lnet.MsgPut, 0
	h.c.Immediate(h.now, &h.txs[3], &header, &h.batch)
	h.performActions()
	return h
}

// receive receives a message with a valid header and any body.
func (h *hostile) receive(kind, credits byte, body []byte) {
	if h.buffers == 0 {
		h.c.Failed(-1, nil, &h.batch) // it waits, and then fails: RNR
		h.performActions()
		return
	}
	m := o2iblnd.Message{
		Version: o2iblnd.V2, Type: o2iblnd.Noop, Credits: credits,
		Src: h.session.Peer, SrcStamp: h.session.PeerStamp, Dst: h.session.Self, DstStamp: h.session.SelfStamp,
	}
	b, err := m.Append(nil, binary.LittleEndian)
	if err != nil {
		h.t.Fatal(err)
	}
	b = append(b, body...)
	b[6] = kind
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	h.buffers--
	h.c.Received(h.now, 0, b, &h.batch)
	h.performActions()
}

// performActions performs the machine's actions: sends complete at once, LNet receives what it can.
func (h *hostile) performActions() {
	for !h.batch.Empty() {
		b := h.batch
		h.batch = o2iblnd.Batch{}
		h.buffers += len(b.Receives)
		h.open += len(b.Arrivals) - len(b.Placed)
		if h.open > 4*hostileDepth {
			h.t.Fatalf("%d arrivals at a depth of %d", h.open, hostileDepth)
		}
		for i := range b.Sends {
			s := &b.Sends[i]
			if n := len(b.Head(s)); n > o2iblnd.MaxMessage {
				h.t.Fatalf("a message of %d bytes", n)
			}
			moved := 0
			for _, w := range b.Writes[s.First : s.First+s.Writes] {
				for _, p := range b.Pieces[w.First : w.First+w.Pieces] {
					moved += int(p.Length)
					if p.Addr%hostileBytes+uint64(p.Length) > hostileBytes/2 || p.Addr >= 2*hostileBytes {
						h.t.Fatalf("reads %+v", p)
					}
				}
			}
			if moved > hostileBytes {
				h.t.Fatalf("%d bytes of %d", moved, hostileBytes)
			}
			h.c.Completed(h.now, s.Slot, &h.batch)
		}
		for _, d := range b.Done {
			if h.done[d.Tx] {
				h.t.Fatal("a message has ended twice")
			}
			h.done[d.Tx] = true
		}
		for _, x := range b.Placed {
			h.c.Release(x.Rx)
		}
		for _, rx := range b.Arrivals {
			h.place(rx)
		}
	}
}

// place places every other arrival and keeps the rest.
func (h *hostile) place(rx *o2iblnd.Rx) {
	if len(h.waiting) < hostileDepth/2 {
		h.waiting = append(h.waiting, rx)
		return
	}
	switch {
	case rx.Type == o2iblnd.PutReq && rx.Header.PayloadLength > 0:
		h.c.Sink(h.now, rx, &o2iblnd.Descriptor{Key: 1, Fragments: []o2iblnd.Fragment{{Length: 1}}}, &h.batch)
	case rx.Type == o2iblnd.GetReq:
		h.c.Reply(h.now, rx, []o2iblnd.Segment{{Length: uint32(min(rx.Room(), hostileBytes/2))}}, &h.batch)
	default:
		h.c.Refuse(h.now, rx, 0, &h.batch)
	}
}

// end ends the connection and everything on it.
func (h *hostile) end() {
	h.c.Flushed(&h.batch)
	h.performActions()
	for _, rx := range h.waiting {
		h.c.Refuse(h.now, rx, 0, &h.batch)
	}
	h.performActions()
	if len(h.done) != len(h.txs) || h.open != 0 {
		h.t.Fatalf("%d of %d messages have ended, %d arrivals have not", len(h.done), len(h.txs), h.open)
	}
}
