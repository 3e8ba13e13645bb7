package selftest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/pattern"
)

// Given writes that use more buffers than all server tests have added, and whose clients send no data, when a
// ping comes, then it is served immediately. The writes end without a reply, and each is counted as dropped.
//
// selftest 1 (2), 3 server (2)-(3), 3 counters
func TestWritesWithoutData(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server := s.player("server", "10.0.0.3").agent(Config{SessionTimeout: -1})
		con := s.player("console", "10.0.0.1").console(1)
		con.make(server, false)
		for _, q := range []*message.TestRequest{con.test(1), brw(con.test(1), message.BRWWrite, 8, message.CheckFull)} {
			q.Loop = 1
			if status := con.add(server, q); status != message.OK {
				t.Fatal(status)
			}
		}
		x := s.stranger(server, nil, 0)
		const writes = baseBuffers + 2*serverBuffers + 1
		q := message.BRWRequest{
			Header: message.NewHeader(1), ReplyID: strangeReply, BulkID: 0x8888, // there is no such buffer
			Op: message.BRWWrite, Length: 8, Check: message.CheckFull,
		}
		for range writes {
			h, err := x.node.Bind(portals.MD{Bytes: q.Append(nil), Threshold: 1, Unlink: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.node.Put(h, server.id, node.PutOptions{Portal: message.TestPortal, MatchBits: uint64(message.ServiceBRW)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if busy, _ := server.load(); busy != writes {
			t.Errorf("%d writes are being served, want %d", busy, writes)
		}
		if r := x.ask(server, &message.PingRequest{Header: message.NewHeader(1), ReplyID: strangeReply, Magic: message.PingMagic}); len(r) != 1 {
			t.Errorf("a ping: %d replies", len(r))
		}
		time.Sleep(10 * time.Minute)
		if r := x.answers(); len(r) != 0 {
			t.Errorf("%d replies to writes without data", len(r))
		}
		busy, _ := server.load()
		if c := server.Counters(); busy != 0 || c.Errors != 0 || c.Dropped != writes {
			t.Errorf("%d writes are being served, %+v", busy, c)
		}
	})
}

// Given a server some of whose messages cannot be sent, when a bulk fails, then no reply follows it. Each
// failure is counted as one error.
//
// selftest 3 server (2), 3 counters
func TestBulksAndRepliesThatDoNotLeave(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, _ := s.serving(Config{})
		x := s.stranger(server, make([]byte, 8), portals.OpPut)
		read := &message.BRWRequest{
			Header: message.NewHeader(1), ReplyID: strangeReply, BulkID: strangeBulk,
			Op: message.BRWRead, Length: 8, Check: message.CheckFull,
		}
		if r := x.ask(server, read); len(r) != 1 {
			t.Fatalf("%d replies", len(r))
		}
		if err := server.node.Admin().AddFault(fault.Rule{
			Kind: fault.Drop, Messages: fault.Put, Rate: 2, Statuses: fault.StatusOf(lnd.StatusLocalError),
		}); err != nil {
			t.Fatal(err)
		}
		const reads = 60 // some lose their bulk, some their reply
		replies := uint32(0)
		for range reads {
			replies += uint32(len(x.ask(server, read)))
		}
		c := server.Counters()
		brought := uint32(c.BulkPut/8) - 1
		if c.Errors+replies != reads || c.Dropped != c.Errors || brought <= replies || brought == reads {
			t.Errorf("%d replies, %d bulks, %+v", replies, brought, c)
		}
	})
}

// Given a client whose buffer is shorter than announced, when it writes, then there is no reply.
//
// selftest 3 server (2)
func TestWriteThatIsTooShort(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server, _ := s.serving(Config{})
		x := s.stranger(server, make([]byte, 8), portals.OpGet|portals.Truncate)
		r := x.ask(server, &message.BRWRequest{
			Header: message.NewHeader(1), ReplyID: strangeReply, BulkID: strangeBulk,
			Op: message.BRWWrite, Length: 16, Check: message.CheckNone,
		})
		if c := server.Counters(); len(r) != 0 || c.Dropped != 1 || c.BulkGet != 0 {
			t.Errorf("%d replies, %+v", len(r), c)
		}
	})
}

// Given servers of either byte order that send their own pattern or that of the other byte order, when a unit
// reads from them, then only the pattern of the other byte order is an error.
//
// selftest 1.1, 5 (2)
func TestReadsFromEitherByteOrder(t *testing.T) {
	const length = 4096
	for name, test := range map[string]struct {
		order, data message.Order // of the reply, and of the data
		errors      uint32
	}{
		"little endian":         {message.LittleEndian, message.LittleEndian, 0},
		"big endian":            {message.BigEndian, message.BigEndian, 0},
		"wrong for little":      {message.LittleEndian, message.BigEndian, 1},
		"wrong for big, though": {message.BigEndian, message.LittleEndian, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				client := s.player("client", "10.0.0.1").agent(Config{})
				var server *player
				server = s.impostor(func(b []byte) []byte {
					var q message.BRWRequest
					if q.Decode(b) != nil {
						return nil
					}
					bulk := make([]byte, length)
					pattern.Fill(bulk, test.data)
					server.give(client.id, q.BulkID, bulk)
					r := message.BRWReply{Header: message.NewHeader(1)}
					r.Order = test.order
					return r.Append(nil)
				})
				con := client.console(1)
				con.make(client, false)
				q := brw(con.test(1), message.BRWRead, length, message.CheckFull)
				q.Loop = 3
				if status := con.add(client, q, server); status != message.OK {
					t.Fatal(status)
				}
				con.run(client, 1)
				con.idle(client, 1)
				if r := con.stat(client); r.Framework.BRWErrors != test.errors {
					t.Errorf("%+v, want %d errors", r.Framework, test.errors)
				}
			})
		})
	}
}

// give PUTs a bulk into a client's buffer.
func (p *player) give(to lnet.ProcessID, bits uint64, b []byte) {
	h, err := p.node.Bind(portals.MD{Bytes: b, Threshold: 1, Unlink: true})
	if err == nil {
		err = p.node.Put(h, to, node.PutOptions{Portal: message.ReplyPortal, MatchBits: bits})
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Pings contain the time and a sequence number. The number starts at 0 when a ping test is added.
//
// selftest 6 (2)
func TestWhatPingsCarry(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		wall := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
		client := s.player("client", "10.0.0.1").agent(Config{Wall: func() time.Time { return wall }})
		var numbers []uint32
		server := s.impostor(func(b []byte) []byte {
			var q message.PingRequest
			if q.Decode(b) != nil {
				return nil
			}
			if q.Seconds != wall.Unix() || q.Nanoseconds != 678 || q.Magic != message.PingMagic {
				t.Errorf("%+v", q)
			}
			numbers = append(numbers, q.Seq)
			r := message.PingReply{Header: message.NewHeader(1), Magic: q.Magic, Seq: q.Seq}
			return r.Append(nil)
		})
		con := client.console(1)
		con.make(client, false)
		for batch := range uint64(2) {
			q := con.test(batch)
			q.Loop = 2
			if status := con.add(client, q, server); status != message.OK {
				t.Fatal(status)
			}
			con.run(client, batch)
			con.idle(client, batch)
		}
		con.run(client, 0) // a second run
		con.idle(client, 0)
		if diff := cmp.Diff([]uint32{0, 1, 0, 1, 2, 3}, numbers); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
