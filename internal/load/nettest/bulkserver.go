package nettest

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// bulkServer is the server of a bulk test. For each pair of descriptors from a client, it reads the
// client's first buffer and writes the data to the second one.
type bulkServer struct {
	*testRun
	free    []*transport.Buffer // free buffers for bulk
	waiting []*transfer         // transfers that wait for a free buffer
	idle    []*transfer
	bulks   int // number of buffers for bulk
	scratch []byte
	pairs   []message.Pair
}

// transfer is one transfer. It has copies of the client's two descriptors.
type transfer struct{ send, recv []byte }

func (s *bulkServer) prepare(ctx context.Context) error {
	callbacks := &transport.Callbacks{
		transport.MsgRecv:        s.locked(s.received),
		transport.ActiveBulkRecv: s.locked(s.fetched),
		transport.ActiveBulkSend: s.locked(s.returned),
	}
	s.bulks = s.test.Concurrency * len(s.test.Peers)
	for range s.bulks {
		b, err := s.newBuffer(ctx, s.test.Size, callbacks)
		if err != nil {
			return err
		}
		s.free = append(s.free, b)
	}
	s.scratch = make([]byte, s.test.BufferSize)
	return s.receiveMessages(ctx, s.test.Buffers, s.test.BufferSize, callbacks)
}

func (s *bulkServer) begin()           {}
func (s *bulkServer) tick(_ time.Time) {}
func (s *bulkServer) flush()           {}
func (s *bulkServer) end()             {}
func (s *bulkServer) finished() bool   { return true }

func (s *bulkServer) received(e *transport.BufferEvent) {
	count(&s.figures.Received, e.Err)
	if e.Err == nil {
		var err error
		s.pairs, err = message.ParseBulk(s.pairs[:0], s.scratch[:e.CopyTo(s.scratch)])
		if err != nil {
			s.figures.Received.Bad++
			s.pairs = s.pairs[:0]
		}
		for _, p := range s.pairs {
			s.accept(p)
		}
	}
	if e.Final {
		s.receiveAgain(e.Buffer)
	}
}

// accept starts a transfer, or queues it until a buffer is free. Transfers must wait for a short time
// because a client may start a transfer before this server has the final event of the previous one. If
// as many transfers wait as there are buffers, accept counts a failure and drops the transfer.
func (s *bulkServer) accept(p message.Pair) {
	if len(s.free) == 0 && len(s.waiting) >= s.bulks {
		s.figures.Transfers.Total++
		s.figures.Transfers.Failed++
		return
	}
	j := &transfer{}
	if n := len(s.idle); n > 0 {
		j, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	j.send, j.recv = append(j.send[:0], p.Send...), append(j.recv[:0], p.Recv...)
	s.waiting = append(s.waiting, j)
	s.serve()
}

// serve starts queued transfers as long as buffers are free.
func (s *bulkServer) serve() {
	for len(s.waiting) > 0 && len(s.free) > 0 {
		b, j := s.free[len(s.free)-1], s.waiting[0]
		s.free = s.free[:len(s.free)-1]
		copy(s.waiting, s.waiting[1:])
		s.waiting = s.waiting[:len(s.waiting)-1]
		b.Data = j
		b.Queue, b.Descriptor = transport.ActiveBulkRecv, j.send
		b.Deadline = time.Now().Add(s.test.Timeout)
		if err := s.loop.TM.Add(b); err != nil {
			count(&s.figures.BulkReceived, err)
			s.release(b, err)
		}
	}
}

// fetched is the callback for the read of a client's buffer. It starts the write to the client's other
// buffer.
func (s *bulkServer) fetched(e *transport.BufferEvent) {
	count(&s.figures.BulkReceived, e.Err)
	b := e.Buffer
	if e.Err != nil {
		s.release(b, e.Err)
		s.serve()
		return
	}
	s.figures.BytesIn += uint64(e.Length)
	j, _ := b.Data.(*transfer)
	b.Queue, b.Descriptor, b.Length = transport.ActiveBulkSend, j.recv, e.Length
	b.Deadline = time.Now().Add(s.test.Timeout)
	if err := s.loop.TM.Add(b); err != nil {
		count(&s.figures.BulkSent, err)
		s.release(b, err)
		s.serve()
	}
}

// returned is the callback for the write to a client's buffer.
func (s *bulkServer) returned(e *transport.BufferEvent) {
	count(&s.figures.BulkSent, e.Err)
	if e.Err == nil {
		s.figures.BytesOut += uint64(e.Buffer.Length)
	}
	s.release(e.Buffer, e.Err)
	s.serve()
}

// release counts a transfer that has ended with err, and frees its buffer b.
func (s *bulkServer) release(b *transport.Buffer, err error) {
	count(&s.figures.Transfers, err)
	j, _ := b.Data.(*transfer)
	s.idle = append(s.idle, j)
	b.Data, b.Descriptor = nil, nil
	s.free = append(s.free, b)
}
