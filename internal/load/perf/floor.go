package perf

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// headSize is the size of a header of the floor. The floor is a simple Go program that exchanges
// messages over one TCP connection without LNet: it reads a header, reads the payload, and writes an
// answer. An LNet message without payload has as many bytes on a V3 connection.
const headSize = 96

// floorServer accepts plain connections and answers their messages until ctx is done.
func floorServer(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			stop := context.AfterFunc(ctx, func() {
				if c, ok := c.(*net.TCPConn); ok {
					_ = c.CloseRead() // ends serveLimitConn, which polls the socket; Close would wait for it
				}
				_ = c.Close()
			})
			defer stop()
			serveFloorConn(c)
		}()
	}
}

// serveFloorConn reads messages and answers each with one write. The header of a message has the length
// of its payload and of the answer's payload. If a header has limitMark, serveLimitConn serves the
// connection from then on.
func serveFloorConn(c net.Conn) {
	// As in many servers, a read may return several small messages. Payloads larger than the buffer are not
	// copied through it.
	r := bufio.NewReaderSize(c, 64<<10)
	head := make([]byte, headSize)
	var payload, answer []byte // grown as needed
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		in, out := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
		if in > 1<<20 || out > 1<<20 {
			return
		}
		if binary.LittleEndian.Uint32(head[8:]) == limitMark {
			if c, ok := c.(*net.TCPConn); ok {
				serveLimitConn(c, head)
			}
			return
		}
		if len(payload) < int(in) {
			payload = make([]byte, in)
		}
		if len(answer) < headSize+int(out) {
			answer = writtenMemory(headSize + int(out))
		}
		if _, err := io.ReadFull(r, payload[:in]); err != nil {
			return
		}
		if _, err := c.Write(answer[:headSize+out]); err != nil {
			return
		}
	}
}

// writtenMemory returns n bytes of memory that has been written to. Memory that was never written to is
// one page of zeros, mapped many times, which the processor could send from its cache.
func writtenMemory(n int) []byte {
	b := make([]byte, n)
	writePages(b)
	return b
}

// writePages writes to all bytes of b, so that each page has memory.
func writePages(b []byte) {
	for k := range b {
		b[k] = byte(k)
	}
}

// floorClient is the active end of a plain connection.
type floorClient struct {
	conn net.Conn
	r    *bufio.Reader
}

func dialFloor(ctx context.Context, addr string) (*floorClient, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &floorClient{conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

// floorMessage returns a message with in bytes of payload that requests an answer with out bytes of
// payload.
func floorMessage(in, out int) []byte {
	b := writtenMemory(headSize + in)
	clear(b[:headSize])
	binary.LittleEndian.PutUint32(b, uint32(in))
	binary.LittleEndian.PutUint32(b[4:], uint32(out))
	return b
}

// once sends a message and waits for its answer, which it reads into answer.
func (f *floorClient) once(message, answer []byte) error {
	if _, err := f.conn.Write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(f.r, answer)
	return err
}

// exchange sends n messages with in bytes of payload, each with an answer of out bytes, and returns the
// time taken. At most window messages are in flight. Each of these has separate memory and is written
// separately. It records a lap for each answer, if only one message is in flight.
func (f *floorClient) exchange(n, in, out, window int, l *laps) (time.Duration, error) {
	messages, answers := make([][]byte, window), make([][]byte, window)
	for k := range window {
		messages[k], answers[k] = floorMessage(in, out), make([]byte, headSize+out)
	}
	l.start()
	start := time.Now()
	if window == 1 {
		for range n {
			if err := f.once(messages[0], answers[0]); err != nil {
				return 0, err
			}
			l.add()
		}
		return time.Since(start), nil
	}

	slots := make(chan struct{}, window)
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() {
		for k := range n {
			slots <- struct{}{}
			if _, err := f.conn.Write(messages[k%window]); err != nil {
				writeErr = err
				return
			}
		}
	})
	for k := range n {
		if _, err := io.ReadFull(f.r, answers[k%window]); err != nil {
			_ = f.conn.Close()
			return 0, fmt.Errorf("answer %d of %d: %w", k, n, err)
		}
		<-slots
	}
	wg.Wait()
	return time.Since(start), writeErr
}
