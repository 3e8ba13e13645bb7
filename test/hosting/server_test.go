package hosting

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
)

// serverReport is what a server has received.
type serverReport struct {
	Messages, Twice    int // duplicates among them
	Bulk, Spoilt       int // fetched, and those of them with wrong bytes
	BulkFailed, NoLoad int // not fetched
	ReceiptsFailed     int
	Troubles           int
	Last               string
}

// server receives messages of workers, fetches the bulk that they announce, and sends receipts.
type server struct {
	tm *transport.TransferMachine

	mu     sync.Mutex         // guards the rest
	lives  map[uint64][]int64 // of each life the times when its messages arrived, ns of CLOCK_MONOTONIC, or 0
	report serverReport
	loads  []*transport.Buffer
	notes  []*transport.Buffer
}

// beServer serves until it is asked to end. The command "ledger FILE" makes it record the received
// messages in a file.
func beServer(ctx context.Context, o order, in *bufio.Scanner) error {
	tm, err := join(ctx, o, 4096)
	if err != nil {
		return err
	}
	s := &server{tm: tm, lives: make(map[uint64][]int64)}
	callbacks := &transport.Callbacks{
		transport.MsgRecv: s.message, transport.MsgSend: s.noted, transport.ActiveBulkRecv: s.fetched,
	}
	var all, rooms []*transport.Buffer
	for i := range 1024 + 512 + 128 {
		size := messageSize
		if i >= 1024+512 {
			size = bulkSize
		}
		b, err := tm.Domain().Buffer(ctx, size)
		if err != nil {
			return err
		}
		all = append(all, b)
		b.Callbacks = callbacks
		switch {
		case i < 1024:
			b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, messageSize, 1
			rooms = append(rooms, b)
		case i < 1024+512:
			b.Queue = transport.MsgSend
			s.notes = append(s.notes, b)
		default:
			b.Queue = transport.ActiveBulkRecv
			s.loads = append(s.loads, b)
		}
	}
	if _, err := tm.AddAll(rooms...); err != nil { // the buffers for receipts and bulk exist by now
		return err
	}
	fmt.Println("up")
	for in.Scan() {
		s.mu.Lock()
		process.Say("report", s.report)
		if o.File != "" {
			err = s.write(o.File)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return depart(ctx, tm, all...)
}

// write records when which message of which life has arrived. mu is held.
func (s *server) write(file string) error {
	var b []byte
	for life, times := range s.lives {
		b = binary.LittleEndian.AppendUint64(b, life)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(times)))
		for _, t := range times {
			b = binary.LittleEndian.AppendUint64(b, uint64(t))
		}
	}
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// readLives reads a file of write.
func readLives(file string) (map[uint64][]int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lives := make(map[uint64][]int64)
	next := func() uint64 {
		v := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return v
	}
	for len(b) > 0 {
		life, n := next(), next()
		for range n {
			lives[life] = append(lives[life], int64(next()))
		}
	}
	return lives, nil
}

func (s *server) trouble(what string, err error) {
	if s.tm.State() != transport.StateStarted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Troubles++
	s.report.Last = fmt.Sprint(what, ": ", err)
}

// message handles a message.
func (s *server) message(e *transport.BufferEvent) {
	var p announcement
	if e.Err != nil {
		s.unexpected("receive", e.Err) // a connection may be cut within a message
	} else if err := p.get(e.Bytes()); err != nil {
		s.trouble("message", err)
	} else {
		s.note(&p)
		if len(p.descriptor) > 0 {
			s.fetch(e, &p)
		}
		s.receipt(e, p)
	}
	if err := e.Add(e.Buffer); err != nil {
		s.trouble("add", err)
	}
}

// note records a message.
func (s *server) note(p *announcement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Messages++
	times := s.lives[p.life]
	for p.number >= uint64(len(times)) {
		times = append(times, 0)
	}
	if times[p.number] != 0 {
		s.report.Twice++
	}
	times[p.number] = shared.Now()
	s.lives[p.life] = times
}

// fetch starts to fetch the bulk that a message announces.
func (s *server) fetch(e *transport.BufferEvent, p *announcement) {
	s.mu.Lock()
	var b *transport.Buffer
	if n := len(s.loads); n > 0 {
		b, s.loads = s.loads[n-1], s.loads[:n-1]
	} else {
		s.report.NoLoad++
	}
	s.mu.Unlock()
	if b == nil {
		return
	}
	b.Descriptor, b.Deadline, b.Data = p.descriptor, time.Now().Add(receiptTime), *p
	if err := s.tm.Add(b); err != nil {
		s.mu.Lock()
		s.report.BulkFailed++
		s.loads = append(s.loads, b)
		s.mu.Unlock()
		s.unexpected("add bulk", err)
	}
}

func (s *server) fetched(e *transport.BufferEvent) {
	p := e.Buffer.Data.(announcement)
	good := e.Err == nil && e.Length == bulkSize && p.filled(e.Bytes())
	s.mu.Lock()
	switch {
	case e.Err != nil:
		s.report.BulkFailed++
	case good:
		s.report.Bulk++
	default:
		s.report.Bulk++
		s.report.Spoilt++
	}
	s.loads = append(s.loads, e.Buffer)
	s.mu.Unlock()
	s.unexpected("bulk", e.Err)
}

// unexpected records errors that are not caused by broken connections and dead workers.
func (s *server) unexpected(what string, err error) {
	if err == nil {
		return
	}
	for _, e := range []error{
		syscall.ETIMEDOUT, syscall.ECANCELED, syscall.EIO, syscall.EHOSTUNREACH, syscall.ECONNRESET, syscall.ECONNABORTED,
		syscall.ENOTCONN, syscall.EPIPE, syscall.ECONNREFUSED, syscall.ENETUNREACH,
	} {
		if errors.Is(err, e) {
			return
		}
	}
	s.trouble(what, err)
}

// receipt answers a message.
func (s *server) receipt(e *transport.BufferEvent, p announcement) {
	s.mu.Lock()
	var b *transport.Buffer
	if n := len(s.notes); n > 0 {
		b, s.notes = s.notes[n-1], s.notes[:n-1]
	} else {
		s.report.ReceiptsFailed++
	}
	s.mu.Unlock()
	if b == nil {
		return
	}
	p.descriptor = nil
	b.Length, b.EndPoint = p.put(b.Bytes()), e.EndPoint
	if err := s.tm.Add(b); err != nil {
		s.mu.Lock()
		s.report.ReceiptsFailed++
		s.notes = append(s.notes, b)
		s.mu.Unlock()
		s.unexpected("add receipt", err)
	}
}

func (s *server) noted(e *transport.BufferEvent) {
	s.mu.Lock()
	if e.Err != nil {
		s.report.ReceiptsFailed++
	}
	s.notes = append(s.notes, e.Buffer)
	s.mu.Unlock()
	s.unexpected("receipt", e.Err)
}
