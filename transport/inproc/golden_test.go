package inproc

import (
	"context"
	"encoding/hex"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
)

// recorder is a network that records the bytes written by a host.
type recorder struct {
	*simlnd.Host

	mu      sync.Mutex
	streams []*recorded
}

type recorded struct {
	socklnd.Stream
	by *recorder

	bytes []byte // guarded by recorder.mu
}

func (r *recorder) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	s, err := r.Host.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return r.record(s), nil
}

func (r *recorder) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	l, err := r.Host.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	return recordedListener{l, r}, nil
}

type recordedListener struct {
	socklnd.Listener
	by *recorder
}

func (l recordedListener) Accept() (socklnd.Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.by.record(s), nil
}

func (r *recorder) record(s socklnd.Stream) socklnd.Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &recorded{Stream: s, by: r}
	r.streams = append(r.streams, k)
	return k
}

func (s *recorded) TryWrite(bufs [][]byte) (int, error) {
	n, err := s.Stream.TryWrite(bufs)
	s.by.mu.Lock()
	defer s.by.mu.Unlock()
	left := n
	for _, b := range bufs {
		k := min(left, len(b))
		s.bytes = append(s.bytes, b[:k]...)
		left -= k
	}
	return n, err
}

// messages splits the recorded bytes, and returns the LNet header and the payload of each message in hex.
func (r *recorder) messages(t *testing.T) (all []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.streams {
		units, err := recording.Parse(s.bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range units {
			if u.Kind == recording.KindMessage {
				frame := len(u.Raw) - headerSize - len(u.Payload)
				all = append(all, hex.EncodeToString(u.Raw[frame:]))
			}
		}
		s.bytes = nil
	}
	return all
}

const headerSize = 72 // of an LNet header with 4-byte NIDs

// golden checks the bytes sent by two nodes: from, 10.1.0.1, and at, 10.1.0.2.
type golden struct {
	t        *testing.T
	from, at *queuedTM
	by, back *recorder
}

// goldenPair creates both nodes, with one TM each at these portals and numbers.
func goldenPair(t *testing.T, portals [2]uint32, ids [2]uint16) *golden {
	fabric := simlnd.New(simlnd.Config{})
	t.Cleanup(fabric.Close)
	g := &golden{t: t}
	open := func(address string, portal uint32, id uint16) (*recorder, *queuedTM) {
		r := &recorder{Host: fabric.Host(address, address)}
		c := socklnd.DefaultConfig()
		c.Network, c.Seed, c.ConnsPerPeer, c.SourcePorts = r, 1, 1, socklnd.SourcePrivileged
		d, err := socklnd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		n := startNode(t, node.Config{Parameters: static()}, d, address+"@tcp")
		return r, start(t, openOn(t, New(n)), at(nidOf(n), portal, id))
	}
	g.by, g.from = open("10.1.0.1", portals[0], ids[0])
	g.back, g.at = open("10.1.0.2", portals[1], ids[1])
	return g
}

// wait returns a waiting op of the receiving node, and ask an active op of the other: messages and bulk of
// 5 bytes, with these match bits.
func (g *golden) wait(q transport.QueueType, m transport.MatchBits) transport.Op {
	b := register(g.t, g.at.domain, []byte("fi"), []byte("llings"))
	return transport.Op{Queue: q, Buffer: b, Sequence: 1, Length: 5, MinReceiveSize: 8, MaxMessages: 1, MatchBits: m}
}

func (g *golden) ask(q transport.QueueType, m transport.MatchBits) transport.Op {
	b := register(g.t, g.from.domain, []byte("me"), []byte("ssages"))
	return transport.Op{Queue: q, Buffer: b, Sequence: 1, Length: 5, Peer: g.at.address, MatchBits: m}
}

// want is the expected output in hex. Spaces are ignored. HANDLE stands for the handle of the descriptor in
// the first message there.
type want struct{ there, back string }

// moved runs an op on a passive buffer or the receive queue and its counterpart, and checks the bytes sent
// by both nodes.
func (g *golden) moved(name string, passive, active transport.Op, w want) {
	g.t.Helper()
	submit(g.t, g.at, passive)
	submit(g.t, g.from, active)
	for _, c := range []transport.Completion{next(g.t, g.from), next(g.t, g.at)} {
		if c.Err != nil || !c.Final {
			g.t.Errorf("%s: %+v", name, c)
		}
	}
	synctest.Wait()
	there := strings.Join(g.by.messages(g.t), " ")
	handle := there[2*32 : 2*48]
	check := func(way, got, want string) {
		want = strings.ReplaceAll(strings.Join(strings.Fields(want), ""), "HANDLE", handle)
		if got != want {
			g.t.Errorf("%s, %s:\n got %s\nwant %s", name, way, got, want)
		}
	}
	check("there", there, w.there)
	check("back", strings.Join(g.back.messages(g.t), " "), w.back)
}

// Parts of LNet headers, byte by byte.
const (
	// Destination and source: first the NIDs, then the PIDs.
	forward  = "0200010a00000200 0100010a00000200 39300000 39300000"
	backward = "0100010a00000200 0200010a00000200 39300000 39300000"

	put, get, reply = "01000000", "02000000", "03000000"

	noAck   = "ffffffffffffffff ffffffffffffffff"
	hdrData = "220000000000c000" // portal 34, number 12
	portal  = "23000000"         // 35
	zero    = "00000000"
	five    = "05000000"

	filli = "66696c6c69"
	messa = "6d65737361"
)

// The bytes sent for each of the six operations match transport 6 exactly. The expected bytes were written
// by hand. The receive queue and the passive queues send only the data fetched from them.
//
// transport-tests G (64), I (81)
// transport 6.4, 6.5 (1)-(2), 6.5 (4), 6.7 (1)
// r.M0.net.xprt.lnet.end-point-address
func TestGoldenBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := goldenPair(t, [2]uint32{34, 35}, [2]uint16{12, 7})
		m := transport.MakeMatchBits(7, 0)
		g.moved("message", g.wait(transport.MsgRecv, 0), g.ask(transport.MsgSend, 0),
			want{there: forward + put + five + noAck + "0000000000007000" + hdrData + portal + zero + messa})
		g.moved("bulk sent", g.wait(transport.PassiveBulkRecv, m+1), g.ask(transport.ActiveBulkSend, m+1),
			want{there: forward + put + five + noAck + "0100000000007000" + hdrData + portal + zero + messa})
		g.moved("bulk fetched", g.wait(transport.PassiveBulkSend, m+2), g.ask(transport.ActiveBulkRecv, m+2),
			want{
				there: forward + get + zero + "HANDLE" + "0200000000007000" + portal + zero + five + zero,
				back:  backward + reply + five + "HANDLE" + zero + zero + zero + zero + zero + zero + filli,
			})
	})
}

// The last counter of a TM and the next one, at the first and last portals and numbers. 1 follows, not 0,
// which belongs to the receive queue. So messages and bulk never match each other, although all wait at the
// same time.
//
// transport-tests I (78)
// transport 6.2 (2), 6.3 (1), 6.4, 6.5 (1)
// r.M0.net.xprt.lnet.end-point-address
func TestGoldenBytesOfLastNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := goldenPair(t, [2]uint32{63, 1}, [2]uint16{transport.MaxTMID, 1})
		const (
			last, first, queue = "ffffffffffff1f00", "0100000000001000", "0000000000001000" // number 1
			sender             = "3f0000000000f0ff"                                         // portal 63, number 4095
			portal             = "01000000"
		)
		sent := func(matchBits string) want {
			return want{there: forward + put + five + noAck + matchBits + sender + portal + zero + messa}
		}
		fetched := func(matchBits string) want {
			return want{
				there: forward + get + zero + "HANDLE" + matchBits + portal + zero + five + zero,
				back:  backward + reply + five + "HANDLE" + zero + zero + zero + zero + zero + zero + filli,
			}
		}
		m := transport.MakeMatchBits(1, transport.MaxCounter)
		submit(t, g.at, g.wait(transport.MsgRecv, 0), g.wait(transport.PassiveBulkRecv, m.Next()))
		g.moved("last bulk sent", g.wait(transport.PassiveBulkRecv, m), g.ask(transport.ActiveBulkSend, m), sent(last))
		g.moved("last bulk fetched", g.wait(transport.PassiveBulkSend, m), g.ask(transport.ActiveBulkRecv, m), fetched(last))
		g.moved("the next one sent", g.wait(transport.PassiveBulkRecv, m), g.ask(transport.ActiveBulkSend, m.Next()), sent(first))
		g.moved("the next one fetched", g.wait(transport.PassiveBulkSend, m.Next()), g.ask(transport.ActiveBulkRecv, m.Next()), fetched(first))
		g.moved("message", g.wait(transport.PassiveBulkRecv, m.Next()), g.ask(transport.MsgSend, 0), sent(queue))
	})
}
