package selftest

import (
	"testing"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a node, when server tests are added, then each adds as many request buffers as requests may come,
// plus some more, within limits. When the test is removed, its buffers are removed.
//
// selftest 1 (1), 4.8 (6), 10
func TestBuffersOfServerTests(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		server := s.player("server", "10.0.0.3").agent(Config{PingWorkItems: 1000})
		con := s.player("console", "10.0.0.1").console(1)
		ping := func(q *message.TestRequest) *message.TestRequest { return q }
		bulk := func(q *message.TestRequest) *message.TestRequest {
			return brw(q, message.BRWRead, 4096, message.CheckNone)
		}
		for _, c := range []struct {
			kind func(q *message.TestRequest) *message.TestRequest
			loop uint32
			want int
		}{
			{bulk, 1, 256},
			{bulk, 192, 256},
			{bulk, 193, 257},
			{bulk, 2048, 2112},
			{bulk, 1 << 31, 2112},
			{ping, 999, 1063},
			{ping, ^uint32(0), 1064},
		} {
			con.make(server, false)
			q := c.kind(con.test(1))
			q.Loop = c.loop
			for k := 1; k <= 2; k++ {
				if status := con.add(server, q); status != message.OK {
					t.Fatal(status)
				}
				if _, posted := server.load(); posted != baseBuffers+k*c.want {
					t.Errorf("%v, loop %d: %d buffers beside the first %d, want %d", q.Tests, c.loop, posted-baseBuffers, baseBuffers, k*c.want)
				}
			}
			con.remove(server)
			if _, posted := server.load(); posted != baseBuffers {
				t.Errorf("%v, loop %d: %d buffers after the session", q.Tests, c.loop, posted)
			}
		}
	})
}
