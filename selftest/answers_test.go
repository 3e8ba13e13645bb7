package selftest

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// impostor is a server whose answers the test chooses.
func (s *stage) impostor(answer func(q []byte) []byte) *player {
	s.t.Helper()
	p := s.player("impostor", "10.0.0.77")
	for range 64 {
		b := make([]byte, message.Size)
		_, err := p.node.Attach(portals.Entry{Portal: message.TestPortal, IgnoreBits: ^uint64(0)}, portals.MD{
			Bytes: b, Threshold: 1, Unlink: true, Options: portals.OpPut,
			Handler: portals.HandlerFunc(func(e *portals.Event) {
				r := answer(b)
				if e.Type != portals.EventPut || r == nil {
					return
				}
				h, err := p.node.Bind(portals.MD{Bytes: r, Threshold: 1, Unlink: true})
				if err == nil {
					err = p.node.Put(h, e.Source, node.PutOptions{Portal: message.ReplyPortal, MatchBits: message.ReplyID(b)})
				}
				if err != nil {
					s.t.Error(err)
				}
			}),
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return p
}

// Given servers that send wrong answers, when units receive them, then each is counted as an error of the
// test, and the unit ends (selftest 5, 6).
//
// selftest 5 (4), 6 (2)
func TestWrongAnswers(t *testing.T) {
	ping := func(change func(r *message.PingReply)) func(q []byte) []byte {
		return func(b []byte) []byte {
			var q message.PingRequest
			if q.Decode(b) != nil {
				return nil
			}
			r := message.PingReply{Header: message.NewHeader(1), Magic: q.Magic, Seq: q.Seq}
			change(&r)
			return r.Append(nil)
		}
	}
	write := func(change func(r *message.BRWReply)) func(q []byte) []byte {
		return func([]byte) []byte {
			r := message.BRWReply{Header: message.NewHeader(1)}
			change(&r)
			return r.Append(nil)
		}
	}
	for name, test := range map[string]struct {
		answer    func(q []byte) []byte
		brw, ping uint32
	}{
		"a good pong":      {ping(func(*message.PingReply) {}), 0, 0},
		"wrong magic":      {ping(func(r *message.PingReply) { r.Magic++ }), 0, 1},
		"wrong number":     {ping(func(r *message.PingReply) { r.Seq++ }), 0, 1},
		"ping status":      {ping(func(r *message.PingReply) { r.Status = message.EPROTO }), 0, 1},
		"ping version":     {ping(func(r *message.PingReply) { r.Version = 9 }), 0, 1},
		"big endian":       {ping(func(r *message.PingReply) { r.Order = message.BigEndian }), 0, 0},
		"another's answer": {func(b []byte) []byte { return b }, 0, 1},
		"bulk refused":     {write(func(r *message.BRWReply) { r.Status = message.EINVAL }), 1, 0},
		"bulk not fetched": {write(func(*message.BRWReply) {}), 1, 0}, // the unit waits for it
		"bulk version":     {write(func(r *message.BRWReply) { r.Version = 0 }), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				client := s.player("client", "10.0.0.1").agent(Config{})
				server := s.impostor(test.answer)
				con := client.console(1)
				con.make(client, false)
				q := con.test(1)
				if test.brw > 0 {
					brw(q, message.BRWWrite, 4096, message.CheckFull)
				}
				q.Loop = 3
				if status := con.add(client, q, server); status != message.OK {
					t.Fatal(status)
				}
				con.run(client, 1)
				time.Sleep(70 * time.Second)
				r := con.stat(client)
				if r.Framework.BRWErrors != test.brw || r.Framework.PingErrors != test.ping || r.Framework.ActiveBatches != 0 {
					t.Errorf("%+v", r.Framework)
				}
			})
		})
	}
}
