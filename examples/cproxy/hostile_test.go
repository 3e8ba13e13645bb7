package cproxy

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/lnet"
)

// Kinds of datagrams, as in udp.c.
const (
	hello = 0x4c4e4400 + iota
	reset
	header
	data
	ack
)

// datagram is the beginning of every datagram.
type datagram struct {
	Kind                          uint32
	From, To, Incarnation, Number uint64
}

// attacker sends datagrams to the proxy of a node, from an address of the network.
type attacker struct {
	t testing.TB
	*net.UDPConn
	target *net.UDPAddr
}

func newAttacker(t testing.TB, k, target int) *attacker {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: address(k).AsSlice(), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &attacker{t, c, &net.UDPAddr{IP: address(target).AsSlice(), Port: port}}
}

// send sends a datagram to the proxy. The kernel may drop it.
func (a *attacker) send(d datagram, payload []byte) {
	a.t.Helper()
	b, err := binary.Append(nil, binary.BigEndian, d)
	if err == nil {
		_, err = a.WriteToUDP(append(b, payload...), a.target)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// receive returns the next datagram of one of the kinds. It returns false if none comes for a while.
func (a *attacker) receive(kinds ...uint32) (datagram, bool) {
	a.t.Helper()
	for b := make([]byte, 1<<16); ; {
		if err := a.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			a.t.Fatal(err)
		}
		n, _, err := a.ReadFromUDP(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return datagram{}, false
		}
		if err != nil {
			a.t.Fatal(err)
		}
		var d datagram
		if _, err := binary.Decode(b[:n], binary.BigEndian, &d); err != nil {
			a.t.Fatal(err)
		}
		for _, kind := range kinds {
			if d.Kind == kind {
				return d, true
			}
		}
	}
}

// open opens a link, whose ID at the attacker is from, and returns its ID at the proxy.
func (a *attacker) open(from uint64) uint64 {
	a.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a.send(datagram{Kind: hello, From: from, Incarnation: 1}, nil)
		d, ok := a.receive(hello)
		if !ok {
			continue
		}
		a.send(datagram{Kind: hello, From: from, To: d.From, Incarnation: 1}, nil)
		if answer, ok := a.receive(ack, reset); ok && answer.Kind == ack && answer.To == from {
			return d.From
		}
	}
	a.t.Fatal("the proxy opens no link")
	return 0
}

// Given two nodes that proxies serve, when they get random datagrams, and when a peer sends them random and
// changed headers, then no proxy ends or is cut off, and the nodes still exchange messages.
func TestHostileDatagrams(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	served, proxy := startServed(t, 151)
	plain := startHost(t, &udplnd.Driver{Port: port, Listen: udplnd.UDP}, 152, pattern(lnet.MTU))
	served.reach(t, plain)
	a := newAttacker(t, 153, 151)
	for k := range 10_000 {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if k%2 == 0 && len(b) >= 4 {
			binary.BigEndian.PutUint32(b, hello+random.Uint32N(6))
		}
		if _, err := a.WriteToUDP(b, a.target); err != nil {
			t.Fatal(err)
		}
		if k%100 == 0 { // do not overrun the socket
			served.reach(t, plain)
		}
	}
	proxy.waitFor("dropped a datagram from "+address(153).String(), 1)
	for k := range uint64(1000) {
		h := lnet.Header{Type: lnet.MsgType(random.Uint32N(4)), Dest: nid(151), Src: nid(153), DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre}
		b := h.AppendNID16(nil)
		for range random.IntN(4) {
			field := [...]int{0, 1, 2, 4, 8, 20, 21, 22, 24, 28, 40, 44, 48, 49, 52, 53, 54, random.IntN(len(b))}
			b[field[random.IntN(len(field))]] = [...]byte{0, 1, 9, 12, 13, 16, 255, byte(random.Uint32())}[random.IntN(8)]
		}
		link := a.open(k + 1)
		a.send(datagram{Kind: header, From: k + 1, To: link, Incarnation: 1}, b)
		if n := binary.LittleEndian.Uint32(b[52:]); n <= 8192 {
			a.send(datagram{Kind: data, From: k + 1, To: link, Incarnation: 1, Number: 1}, make([]byte, n))
		}
		a.send(datagram{Kind: reset, From: k + 1, To: link, Incarnation: 1}, nil)
	}
	proxy.checkAttached()
	served.exchange(t, plain)
	plain.exchange(t, served)
	proxy.checkAttached()
}

// A peer that breaks the protocol loses its link: one whose header the proxy finds invalid, one whose header
// lnetd refuses, and one that sends more payload than announced.
func TestBrokenProtocol(t *testing.T) {
	served, proxy := startServed(t, 161)
	plain := startHost(t, &udplnd.Driver{Port: port, Listen: udplnd.UDP}, 162, pattern(lnet.MTU))
	served.reach(t, plain)
	put := lnet.Header{Type: lnet.MsgPut, Dest: nid(161), Src: nid(163), DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre, PayloadLength: 10}
	tooLong, noSource := put, put
	tooLong.PayloadLength = lnet.MTU + 1
	noSource.Src, noSource.PayloadLength = lnet.NID{}, 0
	a := newAttacker(t, 163, 161)
	for k, c := range []struct {
		name   string
		header []byte
		data   int
	}{
		{name: "too long a payload", header: tooLong.AppendNID16(nil)},
		{name: "short header", header: put.AppendNID16(nil)[:95]},
		{name: "no source", header: noSource.AppendNID16(nil)},
		{name: "too much payload", header: put.AppendNID16(nil), data: 11},
	} {
		from := uint64(k + 1)
		link := a.open(from)
		a.send(datagram{Kind: header, From: from, To: link, Incarnation: 1}, c.header)
		if c.data > 0 {
			a.send(datagram{Kind: data, From: from, To: link, Incarnation: 1, Number: 1}, make([]byte, c.data))
		}
		if _, ok := a.receive(reset); !ok {
			t.Errorf("%s: the link stays", c.name)
		}
	}
	plain.exchange(t, served)
	proxy.checkAttached()
}
