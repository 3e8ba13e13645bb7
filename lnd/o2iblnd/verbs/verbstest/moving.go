package verbstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// Offsets in the arena of outgoing messages, of data to write, and of data that the peer writes. The receives
// are before them. mega is the size of the data.
const (
	outbox = recvs * buffer
	bulk   = 1 << 20
	sink   = 2 << 20
	mega   = 1 << 20
)

// fill fills b with a pattern that depends on n and on the position.
func fill(b []byte, n uint64) {
	for k := range b {
		b[k] = byte(uint64(k)*31 + uint64(k>>8) + n)
	}
}

// filled returns n bytes with the pattern of with.
func filled(n int, with uint64) []byte {
	b := make([]byte, n)
	fill(b, with)
	return b
}

// message stores the n-th message in the outbox and returns its memory.
func (e *end) message(n uint64) verbs.Piece {
	off, size := outbox+int(n%sends)*buffer, messageSize(n)
	body := e.mem.Bytes()[off:][:size]
	binary.LittleEndian.PutUint64(body, n)
	fill(body[8:], n)
	return e.piece(off, size)
}

// messageSize returns the size of the n-th message.
func messageSize(n uint64) int { return 8 + int(n*37%(buffer-8)) }

// got checks that the completion c is that of the n-th message, which has arrived in the k-th receive.
func (e *end) got(c verbs.Completion, n, k uint64) {
	e.s.Helper()
	body := e.received(k)[:c.Bytes]
	if c.Op != verbs.CompletedRecv || c.WRID != k%recvs || len(body) != messageSize(n) || binary.LittleEndian.Uint64(body) != n ||
		!bytes.Equal(body[8:], filled(len(body)-8, n)) {
		e.s.Fatalf("message %d, receive %d: %+v, % x...", n, k%recvs, c, body[:min(len(body), 16)])
	}
}

// receive waits for the completion of a receive. It ignores completions of requests.
func (e *end) receive(i verbs.ID) verbs.Completion {
	e.s.Helper()
	for {
		if c := e.succeeded(i); c.Op == verbs.CompletedRecv {
			return c
		}
	}
}

// messages sends thousands of messages in both directions, and checks that they arrive in order and unchanged.
// Each receive is posted again together with an answer.
func messages(s *stage) {
	const rounds = 2000
	a, b := s.connect(recvs)
	before := s.A.Crossings()
	post := func(e *end, i verbs.ID, again []verbs.Recv, n uint64) {
		s.Helper()
		_, _, err := i.Post(again, []verbs.Request{{WRID: n, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{e.message(n)})
		s.must(err)
	}
	post(s.a, a, nil, 0)
	for n := range uint64(rounds) {
		s.b.got(s.b.receive(b), 2*n, n)
		post(s.b, b, []verbs.Recv{s.b.recv(int(n % recvs))}, 2*n+1)
		s.a.got(s.a.receive(a), 2*n+1, n)
		if n+1 < rounds {
			post(s.a, a, []verbs.Recv{s.a.recv(int(n % recvs))}, 2*n+2)
		}
	}
	used := s.A.Crossings().Sub(before)
	s.Logf("%d messages there and back, one at a time: %.2f crossings per message, %+v", rounds, float64(used.Data())/(2*rounds), used)
	s.part(a, b)
}

// manyOnOneQueue sends messages on eight connections that share a completion queue, many at a time on each.
func manyOnOneQueue(s *stage) {
	const (
		conns  = 8
		rounds = 300
		window = recvs / 2
	)
	as, bs := make([]verbs.ID, conns), map[uint32]int{}
	acked := map[uint32]int{} // completed requests by queue pair
	ids := make([]verbs.ID, conns)
	for k := range as {
		as[k], ids[k] = s.connect(0)
		list := make([]verbs.Recv, window)
		for n := range list { // all connections share the buffers, so their contents are not checked
			list[n] = s.b.recv(n)
		}
		_, _, err := ids[k].Post(list, nil, nil)
		s.must(err)
		bs[ids[k].QPN()] = k
	}
	before, beforeB := s.A.Crossings(), s.B.Crossings()
	sent, came := make([]int, conns), make([]int, conns)
	push := func(k int) {
		n := min(window/2, rounds-sent[k], window-(sent[k]-came[k]))
		if n <= 0 {
			return
		}
		for sent[k]+n-acked[as[k].QPN()] > sends { // wait for completions, which make slots free
			c := next(s, s.a.completions, "completion")
			if c.Status != verbs.Success {
				s.Fatalf("sending: %+v", c)
			}
			acked[c.QPN] = int(c.WRID) + 1
		}
		chain := make([]verbs.Request, n)
		for j := range chain {
			chain[j] = verbs.Request{WRID: uint64(sent[k] + j), Count: 1}
		}
		chain[n-1].Flags = verbs.FlagSignalled
		_, _, err := as[k].Post(nil, chain, []verbs.Piece{s.a.piece(outbox, 100+k)})
		s.must(err)
		sent[k] += n
	}
	for k := range conns {
		push(k)
	}
	for total := 0; total < conns*rounds; {
		c := next(s, s.b.completions, "message")
		k, ok := bs[c.QPN]
		if !ok || c.Status != verbs.Success || int(c.Bytes) != 100+k || int(c.WRID) != came[k]%window {
			s.Fatalf("%d of connection %d: %+v", came[k], k, c)
		}
		came[k]++
		total++
		_, _, err := ids[k].Post([]verbs.Recv{s.b.recv(int(c.WRID))}, nil, nil)
		s.must(err)
		if sent[k]-came[k] <= window/2 {
			push(k)
		}
	}
	used, usedB := s.A.Crossings().Sub(before), s.B.Crossings().Sub(beforeB)
	s.Logf("%d messages on %d connections: sender %.2f crossings per message %+v, receiver %.2f %+v", conns*rounds, conns,
		float64(used.Data())/(conns*rounds), used, float64(usedB.Data())/(conns*rounds), usedB)
	for k := range as {
		s.part(as[k], ids[k])
	}
}

// unsignalled checks that a chain whose last request alone is signalled has one completion.
func unsignalled(s *stage) {
	a, b := s.connect(recvs)
	for round := range uint64(20) {
		const chain = 16
		list := make([]verbs.Request, chain)
		for k := range list {
			list[k] = verbs.Request{WRID: round*chain + uint64(k), Count: 1}
		}
		list[chain-1].Flags = verbs.FlagSignalled
		again := make([]verbs.Recv, 0, chain)
		_, n, err := a.Post(nil, list, []verbs.Piece{s.a.piece(outbox, 10)})
		if n != chain {
			s.Fatalf("round %d: %d posted: %v", round, n, err)
		}
		if c := s.a.succeeded(a); c.WRID != round*chain+chain-1 || c.Op != verbs.CompletedSend {
			s.Fatalf("completed %+v", c)
		}
		for range chain {
			again = append(again, s.b.recv(int(s.b.receive(b).WRID)))
		}
		_, _, err = b.Post(again, nil, nil)
		s.must(err)
	}
	s.part(a, b)
}

// writeMegabyte checks that data of an RDMA WRITE has been written when the message after it arrives.
func writeMegabyte(s *stage) {
	a, b := s.connect(recvs)
	source, target := s.a.mem.Bytes()[bulk:][:mega], s.b.mem.Bytes()[sink:][:mega]
	for round := range uint64(3) {
		fill(source, round)
		_, _, err := a.Post(nil, []verbs.Request{
			{WRID: 1, Op: verbs.RDMAWrite, Remote: s.b.mem.Addr() + sink, RKey: s.b.mem.RKey(), First: 0, Count: 1},
			{WRID: 2, Op: verbs.Send, First: 1, Count: 1, Flags: verbs.FlagSignalled},
		}, []verbs.Piece{s.a.piece(bulk, mega), s.a.piece(outbox, 60)})
		s.must(err)
		if c := s.b.receive(b); c.Bytes != 60 || !bytes.Equal(target, source) {
			s.Fatalf("round %d: %d bytes came, and others than those written", round, c.Bytes)
		}
		if c := s.a.succeeded(a); c.WRID != 2 {
			s.Fatalf("completed %+v", c)
		}
	}
	_, _, err := a.Post(nil, []verbs.Request{{WRID: 3, Op: verbs.RDMAWrite, Remote: s.b.mem.Addr() + sink, RKey: s.b.mem.RKey(), Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{s.a.piece(bulk, 5000)})
	s.must(err)
	if c := s.a.succeeded(a); c.WRID != 3 || c.Op != verbs.CompletedWrite {
		s.Errorf("completed %+v", c)
	}
	s.part(a, b)
}

// writeFromPieces posts many RDMA WRITEs, each from two pieces and to odd addresses, and a message, by one call
// of Post.
func writeFromPieces(s *stage) {
	a, b := s.connect(recvs)
	const (
		parts = sends - 2
		size  = 4001
	)
	source, target := s.a.mem.Bytes()[bulk:][:mega], s.b.mem.Bytes()[sink:][:mega]
	fill(source, 7)
	var chain []verbs.Request
	var pieces []verbs.Piece
	want := make([]byte, mega)
	for k := range parts {
		from, to := k*size+3, (parts-1-k)*(size+100)+1
		chain = append(chain, verbs.Request{WRID: uint64(k), Op: verbs.RDMAWrite, Remote: s.b.mem.Addr() + sink + uint64(to), RKey: s.b.mem.RKey(), First: uint16(len(pieces)), Count: 2})
		pieces = append(pieces, s.a.piece(bulk+from, 1501), s.a.piece(bulk+from+1501, size-1501))
		copy(want[to:], source[from:from+size])
	}
	chain = append(chain, verbs.Request{WRID: parts, First: uint16(len(pieces)), Count: 1, Flags: verbs.FlagSignalled})
	pieces = append(pieces, s.a.piece(outbox, 60))
	before := s.A.Crossings().Posts
	_, _, err := a.Post(nil, chain, pieces)
	s.must(err)
	if n := s.A.Crossings().Posts - before; n != 1 {
		s.Errorf("a chain of %d took %d crossings", len(chain), n)
	}
	s.b.receive(b)
	if !bytes.Equal(target, want) {
		s.Error("others than the bytes that were written")
	}
	s.a.succeeded(a)
	s.part(a, b)
}

// inline checks that the memory of a request with FlagInline may be reused after Post has returned.
func inline(s *stage) {
	a := s.a.dial(s.b.addr)
	a.Destroy()
	i, err := s.a.ch.Dial(verbs.Dial{From: s.AddrA, To: s.b.addr, Timeout: timeout})
	s.must(err)
	s.a.expect(verbs.EventAddrResolved)
	size := verbs.QP{CQ: s.a.cq, Sends: sends, Recvs: recvs, SendPieces: 1, Inline: 64}
	s.must(i.CreateQP(&size))
	if size.Inline < 64 || size.Sends < sends || size.Recvs < recvs || size.SendPieces < 1 {
		s.Fatalf("the queue pair has %+v", size)
	}
	s.must(i.ResolveRoute(timeout))
	s.a.expect(verbs.EventRouteResolved)
	s.must(i.Connect(param))
	b := s.b.pair(s.b.expect(verbs.EventConnectRequest).ID)
	s.b.receives(b, 0, recvs)
	s.must(b.Accept(param))
	s.a.expect(verbs.EventEstablished)
	s.b.expect(verbs.EventEstablished)
	out := s.a.mem.Bytes()[outbox:][:64]
	for n := range uint64(20) {
		fill(out, n)
		_, _, err := i.Post(nil, []verbs.Request{{WRID: n, Count: 1, Flags: verbs.FlagSignalled | verbs.FlagInline}}, []verbs.Piece{s.a.piece(outbox, 64)})
		s.must(err)
	}
	for n := range uint64(20) {
		if c := s.b.receive(b); !bytes.Equal(s.b.received(c.WRID)[:c.Bytes], filled(64, n)) {
			s.Fatalf("message %d: % x", n, s.b.received(c.WRID)[:c.Bytes])
		}
	}
	s.part(i, b)
}

// deferred checks that deferred completions are delivered: alone, with the completion of a receive, after
// deferral has ended, and of a request that fails.
func deferred(s *stage) {
	a, b := s.connect(recvs)
	for n := range uint64(3) { // the first completion may still wake the waiter
		s.a.cq.Defer(true)
		s.a.send(a, n, outbox, 64)
		if c := s.a.succeeded(a); c.WRID != n {
			s.Fatalf("completion %+v, want that of request %d", c, n)
		}
	}
	s.a.send(a, 3, outbox, 64)
	s.b.receive(b)
	s.b.send(b, 4, outbox, 64)
	got := map[verbs.CompletionOp]bool{s.a.succeeded(a).Op: true, s.a.succeeded(a).Op: true}
	if !got[verbs.CompletedSend] || !got[verbs.CompletedRecv] {
		s.Fatalf("completions of %v, want a request and a receive", got)
	}
	s.a.cq.Defer(false)
	s.a.send(a, 5, outbox, 64)
	s.a.succeeded(a)
	s.a.cq.Defer(true)
	s.must(a.Fail())
	s.a.send(a, 6, outbox, 64)
	for failed := false; !failed; {
		c := s.a.completion(a)
		if c.Status == verbs.Success {
			s.Fatalf("%+v after the failure", c)
		}
		failed = c.WRID == 6
	}
	s.part(a, b)
}

// deferredWhilePolling is deferred with waiters that poll before they sleep.
func deferredWhilePolling(s *stage) {
	s.spin.Store(int64(verbs.MaxDefer / 4))
	deferred(s)
}

// programsMemory checks that memory of the program can be registered, and then be read and written by the
// device.
func programsMemory(s *stage) {
	a, b := s.connect(recvs)
	program := make([]byte, 100_000)
	m, err := s.b.dev.Register(program[77:], verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	s.must(err)
	read, err := s.a.dev.Register(filled(50_000, 3), verbs.AccessRead)
	s.must(err)
	_, _, err = a.Post(nil, []verbs.Request{
		{Op: verbs.RDMAWrite, Remote: m.Addr() + 1000, RKey: m.RKey(), Count: 1},
		{WRID: 2, First: 1, Count: 1, Flags: verbs.FlagSignalled},
	}, []verbs.Piece{{Addr: read.Addr(), Len: 50_000, LKey: read.LKey()}, s.a.piece(outbox, 1)})
	s.must(err)
	s.b.receive(b)
	if !bytes.Equal(program[1077:][:50_000], filled(50_000, 3)) || !bytes.Equal(program[:1077], make([]byte, 1077)) {
		s.Error("others than the bytes that were written")
	}
	s.a.succeeded(a)
	s.part(a, b)
	s.must(m.Close())
	s.must(read.Close())
	if err := m.Close(); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("closed twice: %v", err)
	}
	if _, err := s.a.dev.Register(nil, verbs.AccessRead); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("no bytes: %v", err)
	}
}

// sendQueueFull checks that Post posts as many requests of a chain as the queue has room for, and that
// completions make room again.
func sendQueueFull(s *stage) {
	a := s.a.dial(s.b.addr)
	s.must(a.Connect(param))
	b := s.b.pair(s.b.expect(verbs.EventConnectRequest).ID)
	s.must(b.Accept(param))
	s.a.expect(verbs.EventEstablished)
	s.b.expect(verbs.EventEstablished)
	// The peer has no receive posted, so the messages stay in the queue.
	chain := make([]verbs.Request, 4096)
	for k := range chain {
		chain[k] = verbs.Request{WRID: uint64(k), Count: 1, Flags: verbs.FlagSignalled}
	}
	_, n, err := a.Post(nil, chain, []verbs.Piece{s.a.piece(outbox, 8)})
	if !errors.Is(err, syscall.ENOMEM) || !verbs.Full(err) || n < sends || n == len(chain) {
		s.Fatalf("%d of %d posted to a queue of %d: %v", n, len(chain), sends, err)
	}
	s.b.receives(b, 0, min(n, recvs))
	for k := range min(n, recvs) {
		if c := s.a.succeeded(a); c.WRID != uint64(k) {
			s.Fatalf("completed %d, want %d", c.WRID, k)
		}
	}
	_, n, err = a.Post(nil, chain[:1], []verbs.Piece{s.a.piece(outbox, 8)})
	if n != 1 {
		s.Errorf("no room after %d completions: %v", recvs, err)
	}
	s.part(a, b)
}

// receiveQueueFull checks that Post posts as many receives as the queue has room for.
func receiveQueueFull(s *stage) {
	a := s.a.dial(s.b.addr)
	list := make([]verbs.Recv, 4096)
	for k := range list {
		list[k] = s.a.recv(k)
	}
	n, _, err := a.Post(list, nil, nil)
	if !errors.Is(err, syscall.ENOMEM) || n < recvs || n == len(list) {
		s.Errorf("%d of %d posted to a queue of %d: %v", n, len(list), recvs, err)
	}
	a.Destroy()
}

// tooLarge checks that a queue pair above the device's limits is not created, and that a smaller one can then
// be created.
func tooLarge(s *stage) {
	i, err := s.a.ch.Dial(verbs.Dial{From: s.AddrA, To: s.b.addr, Timeout: timeout})
	s.must(err)
	s.a.expect(verbs.EventAddrResolved)
	attr := s.a.dev.Attr()
	for _, size := range []verbs.QP{
		{CQ: s.a.cq, Sends: attr.MaxWR + 1, Recvs: 1, SendPieces: 1},
		{CQ: s.a.cq, Sends: 1, Recvs: attr.MaxWR + 1, SendPieces: 1},
		{CQ: s.a.cq, Sends: 1, Recvs: 1, SendPieces: attr.MaxPieces + 1},
		{Sends: 1, Recvs: 1, SendPieces: 1},
	} {
		if err := i.CreateQP(&size); err == nil || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
			s.Errorf("%+v: %v", size, err)
		}
	}
	s.a.pair(i)
	if _, err := s.a.dev.NewCQ(attr.MaxCQE+1, 0); err == nil || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOMEM) {
		s.Errorf("a queue of %d completions: %v", attr.MaxCQE+1, err)
	}
	i.Destroy()
}
