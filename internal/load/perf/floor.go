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

// The floor is what a simple Go program does that exchanges messages over one TCP connection without any
// protocol: it reads a header of 96 bytes, reads the payload, and writes an answer. 96 bytes is the size
// of an LNet message without payload on a V3 connection.
const headSize = 96

// floorServer answers on plain connections until ctx is done.
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
					_ = c.CloseRead() // a spinning answerer sees this; Close waits for it
				}
				_ = c.Close()
			})
			defer stop()
			floorAnswer(c)
		}()
	}
}

// floorAnswer reads messages and answers each with one write. The header has the length of the payload
// and that of the answer's payload. A header with limitMark passes the connection to limitAnswer.
func floorAnswer(c net.Conn) {
	// Servers of small messages commonly read ahead a few messages. Larger payloads bypass the buffer.
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
				limitAnswer(c, head)
			}
			return
		}
		if len(payload) < int(in) {
			payload = make([]byte, in)
		}
		if len(answer) < headSize+int(out) {
			answer = written(headSize + int(out))
		}
		if _, err := io.ReadFull(r, payload[:in]); err != nil {
			return
		}
		if _, err := c.Write(answer[:headSize+out]); err != nil {
			return
		}
	}
}

// written returns n bytes of memory that have been written. Memory that was never written maps to a
// single page of zeros, which would be sent or copied from the processor's nearest cache.
func written(n int) []byte {
	b := make([]byte, n)
	touchPages(b)
	return b
}

// touchPages writes to all pages of b.
func touchPages(b []byte) {
	for k := range b {
		b[k] = byte(k)
	}
}

// floorClient measures on one plain connection.
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

// floorMessage returns a message with in bytes of payload whose answer has out bytes.
func floorMessage(in, out int) []byte {
	b := written(headSize + in)
	clear(b[:headSize])
	binary.LittleEndian.PutUint32(b, uint32(in))
	binary.LittleEndian.PutUint32(b[4:], uint32(out))
	return b
}

// once sends a message and waits for its answer.
func (f *floorClient) once(message, answer []byte) error {
	if _, err := f.conn.Write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(f.r, answer)
	return err
}

// exchange sends n messages with in bytes of payload, which are answered with out bytes. At most window
// messages are under way. Each is written separately, from its own memory, as in any program with so many
// messages under way.
func (f *floorClient) exchange(n, in, out, window int) (time.Duration, error) {
	messages, answers := make([][]byte, window), make([][]byte, window)
	for k := range window {
		messages[k], answers[k] = floorMessage(in, out), make([]byte, headSize+out)
	}
	start := time.Now()
	if window == 1 {
		for range n {
			if err := f.once(messages[0], answers[0]); err != nil {
				return 0, err
			}
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
