package selftest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a node in a session, when a stranger that has the session ID sends thousands of requests with
// corrupt bytes and extreme numbers, and does not answer the node's fetches, then the node survives,
// stays within its limits, answers others afterwards, and keeps nothing.
//
// selftest 1 (2), 2.5 (1), 3 server (2)-(3), 5 (6)
func TestHostileFlood(t *testing.T) {
	for seed := range testenv.Fewer(6) {
		onStage(t, func(t *testing.T, s *stage) {
			server := s.player("server", "10.0.0.3").agent(Config{
				RPCTimeout: time.Second, MaxUnits: 2000, MaxTests: 50, MaxServing: 500, ServerMemory: 2 << 20, ClientMemory: 2 << 20,
			})
			con := s.player("console", "10.0.0.1").console(1)
			con.make(server, false)
			x := s.stranger(server, make([]byte, 1<<20), portals.OpGet) // PUTs to this buffer fail
			list := message.AppendDestinations(nil, append(destinations(t, server, x.player),
				message.Destination{NID: 0x0002_0000_0a00_0099, PID: 12345}), message.LittleEndian)
			r := rand.New(rand.NewPCG(uint64(seed), 2))
			const listBits = 0x3333
			if _, err := x.node.Attach(portals.Entry{Portal: message.ReplyPortal, Match: server.id, MatchBits: listBits},
				portals.MD{Bytes: list, Threshold: portals.Unlimited, Options: portals.OpGet | portals.Truncate | portals.ManageRemote}); err != nil {
				t.Fatal(err)
			}
			for range 3000 {
				q := hostile(r, con, listBits)
				b := q.Append(nil)
				for range r.IntN(3) {
					spoil(r, b)
				}
				service := uint64(q.Service())
				if r.IntN(20) == 0 {
					service = r.Uint64() >> r.IntN(64)
				}
				if r.IntN(20) == 0 {
					b = b[:r.IntN(len(b))]
				}
				h, err := x.node.Bind(portals.MD{Bytes: b, Threshold: 1, Unlink: true})
				if err != nil {
					t.Fatal(err)
				}
				err = x.node.Put(h, server.id, node.PutOptions{Portal: q.Service().Portal(), MatchBits: service})
				if err != nil {
					t.Fatal(err)
				}
				if r.IntN(50) == 0 {
					time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
				}
			}
			time.Sleep(30 * time.Minute) // all fetches of lists have timed out
			if busy, posted := server.load(); busy+posted > 500 {
				t.Errorf("%d busy, %d posted", busy, posted)
			}
			if n := server.units.Load(); n > 2000 {
				t.Errorf("%d units", n)
			}
			other := *con
			other.id.Stamp = 99
			if got := other.make(server, true); got.Status != message.OK {
				t.Errorf("%v", got.Status)
			}
			if got := other.stat(server); got.Status != message.OK {
				t.Errorf("%v", got.Status)
			}
			other.remove(server)
		})
	}
}

// hostile returns a request that may have an effect.
func hostile(r *rand.Rand, con *console, list uint64) message.Request {
	h := con.header()
	switch r.IntN(10) {
	case 0:
		return &message.MakeSessionRequest{Header: h, ReplyID: strangeReply + 1, Session: con.id}
	case 1:
		return &message.DebugRequest{Header: h, ReplyID: strangeReply + 1}
	case 2, 3:
		return &message.BatchRequest{
			Header: h, ReplyID: strangeReply + 1, Session: con.id, Batch: r.Uint64N(3), Op: message.BatchOp(r.IntN(4)), Arg: r.Uint32N(2),
		}
	case 4:
		return &message.StatRequest{Header: h, ReplyID: strangeReply + 1, Session: con.id}
	case 5, 6:
		q := con.test(r.Uint64N(3))
		q.Loop = 1 + r.Uint32N(20) // a node's RPCs to itself take no time here
		q.ReplyID, q.BulkID, q.Client, q.Destinations = strangeReply+1, list, r.IntN(3) > 0, 1+r.Uint32N(3)
		if r.IntN(2) == 0 {
			brw(q, 1+r.Uint32N(2), 4096, message.Check(1+r.Uint32N(4)))
		}
		return q
	case 7:
		return &message.PingRequest{Header: h, ReplyID: strangeReply + 1, Magic: message.PingMagic}
	}
	return &message.BRWRequest{
		Header: h, ReplyID: strangeReply + 1, BulkID: strangeBulk + r.Uint64N(2), Op: 1 + r.Uint32N(2), Length: 1 << r.IntN(21),
		Check: message.Check(1 + r.Uint32N(4)),
	}
}

// spoil changes a message somewhere, except the loop of a test, which must not become endless.
func spoil(r *rand.Rand, b []byte) {
	extremes := []uint32{0, 1, 7, 1 << 20, 1<<31 - 1, 1 << 31, ^uint32(0)}
	switch at := r.IntN(40) * 4; {
	case at == 68 && binary.LittleEndian.Uint32(b[8:]) == uint32(message.TypeTestRequest):
	case r.IntN(2) == 0:
		b[at+r.IntN(4)] ^= 1 << r.IntN(8)
	default:
		binary.LittleEndian.PutUint32(b[at:], extremes[r.IntN(len(extremes))])
	}
}
