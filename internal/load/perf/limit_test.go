package perf

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	"pgregory.net/rapid"
)

// Messages of any size are answered, for any number under way.
func TestLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- floorServer(ctx, l) }()
	c, err := dialLimit(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	floor, err := dialFloor(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []exchange{
		{n: 1, window: 1}, {n: 300, in: 96, out: 96, window: 1}, {n: 640, in: 96, window: 64},
		{n: 24, in: 1 << 20, window: 8}, {n: 24, out: 1 << 20, window: 8}, {n: 16, in: 1 << 20, out: 1 << 20, window: 8},
		{n: 7, in: 1, out: 2, window: 64},
	} {
		if took, err := c.exchange(x.n, x.in, x.out, x.window, nil); err != nil || took <= 0 {
			t.Errorf("%+v: %v, %v", x, took, err)
		}
		if took, err := floor.exchange(8, x.in, x.out, 4, nil); err != nil || took <= 0 {
			t.Errorf("%+v, floor: %v, %v", x, took, err)
		}
	}
	cancel()
	for { // until the answering end has noticed
		if _, err := c.exchange(1, 0, 0, 1, nil); err != nil {
			break
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	_, _ = c.conn.Close(), floor.conn.Close()
}

// For any fragmentation of the stream, each message is answered once.
func TestAnswererTakesPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		want := 0
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			in, out := rapid.IntRange(0, 300).Draw(t, "in"), rapid.IntRange(0, 300).Draw(t, "out")
			m := make([]byte, headSize+in)
			for k := range m {
				m[k] = 0xff // invalid in a header
			}
			binary.LittleEndian.PutUint32(m, uint32(in))
			binary.LittleEndian.PutUint32(m[4:], uint32(out))
			stream, want = append(stream, m...), want+headSize+out
		}
		a := &limitServer{in: make([]byte, 512)}
		for len(stream) > 0 {
			room := a.in[a.headerBytes:]
			n := copy(room[:rapid.IntRange(1, len(room)).Draw(t, "read")], stream)
			stream = stream[n:]
			if err := a.process(n); err != nil {
				t.Fatal(err)
			}
		}
		if a.answersDue != want || a.headerBytes != 0 || a.payloadLeft != 0 {
			t.Fatalf("%d owed, want %d; %d had, %d to skip", a.answersDue, want, a.headerBytes, a.payloadLeft)
		}
	})
}

// A header with sizes that exceed the memory ends the connection.
func TestAnswererRefuses(t *testing.T) {
	a := &limitServer{in: make([]byte, limitMemory)}
	binary.LittleEndian.PutUint32(a.in, 1<<20+1)
	if err := a.process(headSize); err == nil {
		t.Error("a message of more than a megabyte is taken")
	}
}
