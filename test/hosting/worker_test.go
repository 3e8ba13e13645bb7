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

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
)

const (
	bulkSize = 64 << 10
	bulkEach = 8 // number of messages for each that announces bulk
	// window is the maximum number of messages of a worker that wait for their receipts. A message
	// that has waited for receiptTime is given up.
	window      = 8
	receiptTime = 3 * time.Second
	// loads is the number of messages for which a worker has buffers.
	loads = window + 2
)

// announcement is a message of a worker: life u64, number u64, length of a descriptor u64, and the
// descriptor.
type announcement struct {
	life, number uint64
	descriptor   transport.Descriptor
}

func (p *announcement) put(b []byte) int {
	binary.LittleEndian.PutUint64(b, p.life)
	binary.LittleEndian.PutUint64(b[8:], p.number)
	binary.LittleEndian.PutUint64(b[16:], uint64(len(p.descriptor)))
	return 24 + copy(b[24:], p.descriptor)
}

func (p *announcement) get(b []byte) error {
	if len(b) < 24 || uint64(len(b)-24) != binary.LittleEndian.Uint64(b[16:]) {
		return fmt.Errorf("a message of %d bytes is no parcel", len(b))
	}
	p.life, p.number = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	p.descriptor = append(transport.Descriptor(nil), b[24:]...)
	return nil
}

// fill writes the expected content of bulk. filled checks it.
func (p *announcement) fill(b []byte) {
	for at := 0; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], p.life*1e9+p.number*uint64(len(b))+uint64(at))
	}
}

func (p *announcement) filled(b []byte) bool {
	for at := 0; at+8 <= len(b); at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != p.life*1e9+p.number*uint64(len(b))+uint64(at) {
			return false
		}
	}
	return true
}

// entry is the record that a worker keeps of a message that is over. It is in a file, and survives
// the worker.
type entry struct {
	number       uint64
	begun, ended int64 // ns of CLOCK_MONOTONIC
	errno        uint64
}

const entrySize = 32

func (e *entry) append(b []byte) []byte {
	for _, v := range []uint64{e.number, uint64(e.begun), uint64(e.ended), e.errno} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func readEntries(path string) (all []entry, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for ; len(b) >= entrySize; b = b[entrySize:] {
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
		all = append(all, entry{word(0), int64(word(1)), int64(word(2)), word(3)})
	}
	return all, nil
}

// errnoOf returns the errno of an error, or 0.
func errnoOf(err error) uint64 {
	if err == nil {
		return 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return uint64(errno)
	}
	return uint64(syscall.EIO)
}

// worker sends numbered messages, some of which announce bulk, to a server that answers
// each with a receipt.
type worker struct {
	tm     *transport.TransferMachine
	life   uint64
	pause  time.Duration // after each message
	ledger *os.File

	mu      sync.Mutex // guards the rest
	idle    []*load
	waiting map[uint64]time.Time // for receipts
	wake    chan struct{}
	err     error
}

// load has the buffers of one message. It is reused after both operations have ended.
type load struct {
	message, bulk *transport.Buffer
	number        uint64
	begun         int64
	under         int
}

// beWorker works until it is asked to end.
func beWorker(ctx context.Context, o order, in *bufio.Scanner) error {
	tm, err := join(ctx, o, 128)
	if err != nil {
		return err
	}
	w := &worker{tm: tm, life: o.Seed, pause: o.Pause, waiting: make(map[uint64]time.Time), wake: make(chan struct{}, 1)}
	if w.ledger, err = os.OpenFile(o.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}
	to, err := tm.EndPoint(o.To)
	if err != nil {
		return err
	}
	all, err := w.prepare(ctx, to)
	if err != nil {
		return err
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w.work(over)
	}()
	fmt.Println("up")
	for in.Scan() {
	}
	close(over)
	<-done
	w.settle()
	to.Put()
	if err := depart(ctx, tm, all...); err != nil {
		return err
	}
	return w.err
}

func (w *worker) prepare(ctx context.Context, to *transport.EndPoint) (all []*transport.Buffer, err error) {
	callbacks := &transport.Callbacks{
		transport.MsgRecv: w.receipt, transport.MsgSend: w.sent, transport.PassiveBulkSend: w.fetched,
	}
	for range loads {
		l := &load{}
		for _, b := range []**transport.Buffer{&l.message, &l.bulk} {
			size := messageSize
			if b == &l.bulk {
				size = bulkSize
			}
			if *b, err = w.tm.Domain().Buffer(ctx, size); err != nil {
				return nil, err
			}
			(*b).Callbacks, (*b).Data = callbacks, l
			all = append(all, *b)
		}
		l.message.EndPoint, l.message.Queue, l.bulk.Queue = to, transport.MsgSend, transport.PassiveBulkSend
		w.idle = append(w.idle, l)
	}
	for range 4 * window {
		b, err := w.tm.Domain().Buffer(ctx, messageSize)
		if err != nil {
			return nil, err
		}
		b.Queue, b.Callbacks, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, callbacks, messageSize, 1
		if err := w.tm.Add(b); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

func (w *worker) fail(err error) {
	w.mu.Lock()
	if w.err == nil && w.tm.State() == transport.StateStarted {
		w.err = err
		fmt.Println("trouble:", err)
	}
	w.mu.Unlock()
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) receipt(e *transport.BufferEvent) {
	if e.Err != nil {
		if !errors.Is(e.Err, syscall.ECANCELED) {
			w.fail(fmt.Errorf("receive: %w", e.Err))
		}
		return
	}
	var p announcement
	if err := p.get(e.Bytes()); err != nil {
		w.fail(err)
	} else if p.life == w.life {
		w.mu.Lock()
		delete(w.waiting, p.number)
		w.mu.Unlock()
		w.poke()
	}
	if err := e.Add(e.Buffer); err != nil {
		w.fail(err)
	}
}

func (w *worker) sent(e *transport.BufferEvent) {
	l := e.Buffer.Data.(*load)
	n := entry{l.number, l.begun, shared.Now(), errnoOf(e.Err)}
	if _, err := w.ledger.Write(n.append(nil)); err != nil {
		w.fail(err)
	}
	w.mu.Lock()
	if e.Err != nil {
		delete(w.waiting, l.number)
	}
	w.mu.Unlock()
	w.ended(l)
}

func (w *worker) fetched(e *transport.BufferEvent) {
	if e.Err != nil && !errors.Is(e.Err, syscall.ECANCELED) && !errors.Is(e.Err, syscall.ETIMEDOUT) {
		// An effect of broken connections.
		fmt.Println("bulk:", e.Err)
	}
	w.ended(e.Buffer.Data.(*load))
}

func (w *worker) ended(l *load) {
	w.mu.Lock()
	if l.under--; l.under == 0 {
		w.idle = append(w.idle, l)
	}
	w.mu.Unlock()
	w.poke()
}

// work sends messages until over is closed.
func (w *worker) work(over chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for number := uint64(1); ; {
		if l := w.take(number); l != nil {
			if err := w.send(l, number); err != nil {
				w.fail(err)
			}
			number++
			time.Sleep(w.pause)
			select {
			case <-over:
				return
			default:
			}
			continue
		}
		select {
		case <-over:
			return
		case <-w.wake:
		case <-tick.C:
		}
	}
}

// settle waits until all operations have ended, because closing would cancel them.
func (w *worker) settle() {
	for {
		w.mu.Lock()
		settled := len(w.idle) == loads || w.tm.State() != transport.StateStarted
		w.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-w.wake:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// take returns a load for the next message, or nil if no message may be sent yet.
func (w *worker) take(number uint64) *load {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, since := range w.waiting {
		if time.Since(since) > receiptTime {
			delete(w.waiting, n)
		}
	}
	if len(w.waiting) >= window || len(w.idle) == 0 || w.tm.State() != transport.StateStarted {
		return nil
	}
	l := w.idle[len(w.idle)-1]
	w.idle = w.idle[:len(w.idle)-1]
	w.waiting[number] = time.Now()
	return l
}

func (w *worker) send(l *load, number uint64) error {
	p := announcement{life: w.life, number: number}
	l.number, l.begun = number, shared.Now()
	w.mu.Lock()
	l.under = 1
	if number%bulkEach == 0 {
		l.under = 2
	}
	w.mu.Unlock()
	if number%bulkEach == 0 {
		p.fill(l.bulk.Bytes())
		l.bulk.Length, l.bulk.Deadline = bulkSize, time.Now().Add(2*receiptTime)
		if err := w.tm.Add(l.bulk); err != nil {
			w.ended(l)
			w.ended(l)
			return fmt.Errorf("offer bulk: %w", err)
		}
		p.descriptor = l.bulk.Descriptor
	}
	l.message.Length = p.put(l.message.Bytes())
	if err := w.tm.Add(l.message); err != nil {
		w.mu.Lock()
		delete(w.waiting, number)
		w.mu.Unlock()
		n := entry{number, l.begun, shared.Now(), errnoOf(err)}
		_, _ = w.ledger.Write(n.append(nil)) // a missing entry counts as not sent
		w.ended(l)
	}
	return nil
}
