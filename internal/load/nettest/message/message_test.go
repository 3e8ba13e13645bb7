package message

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
)

func bulkTest() *Test {
	return &Test{
		Role: Client, Kind: Bulk, Data: "0@lo:12345:42:318", Peers: []string{"0@lo:12345:42:334"}, Count: 64,
		Time: time.Minute, Size: 1 << 20, Concurrency: 8, Timeout: time.Second, Buffers: 16, BufferSize: 16 << 10,
		Descriptors: 8, Verify: true, Messages: 1, Delivery: "sync",
	}
}

// Given commands and answers of each type, when they are encoded and decoded, then they are unchanged,
// and have only the body of their type.
//
// transport 10.3 commands
func TestCommands(t *testing.T) {
	f := &figures.Figures{Finished: true}
	f.RTT.Add(7)
	for _, c := range []struct{ sent, want Command }{
		{Command{Type: Init, Sequence: 1, Test: bulkTest()}, Command{Type: Init, Sequence: 1, Test: bulkTest()}},
		{Command{Type: InitDone, Sequence: 1, Errno: syscall.EALREADY}, Command{Type: InitDone, Sequence: 1, Errno: syscall.EALREADY}},
		{Command{Type: Start, Sequence: 2, Test: bulkTest()}, Command{Type: Start, Sequence: 2}},
		{Command{Type: StatusData, Sequence: 3, Figures: f}, Command{Type: StatusData, Sequence: 3, Figures: f}},
		{Command{Type: StatusData, Errno: syscall.ENOENT}, Command{Type: StatusData, Errno: syscall.ENOENT}},
		{Command{Type: 99}, Command{Type: 99}},
	} {
		b, err := c.sent.Append([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseCommand(bytes.TrimPrefix(b, []byte("before")))
		if err != nil {
			t.Fatalf("%s: %v", c.sent.Type, err)
		}
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s: %s", c.sent.Type, diff)
		}
	}
}

// Given malformed commands, when they are decoded, then the error is EPROTO. A command that would be too
// long is not encoded.
//
// transport 10.3 commands
func TestBrokenCommands(t *testing.T) {
	whole, err := (&Command{Type: Init, Test: bulkTest()}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := [][]byte{nil, whole[:23], whole[:24], whole[:len(whole)-1], append(bytes.Clone(whole), '}'), make([]byte, 100),
		append(bytes.Clone(whole), bytes.Repeat([]byte{' '}, CommandSize)...)}
	for _, b := range broken {
		if c, err := ParseCommand(b); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%q: %+v, %v", b, c, err)
		}
	}
	many := bulkTest()
	many.Peers = strings.Split(strings.Repeat("10.72.49.14@o2ib11:12345:42:1000,", 500), ",")
	if _, err := (&Command{Type: Init, Test: many}).Append(nil); !errors.Is(err, syscall.EMSGSIZE) {
		t.Error(err)
	}
}

// The names of answers match those of their commands.
func TestTypes(t *testing.T) {
	for typ := Init; typ < types; typ += 2 {
		if typ.IsAnswer() || !typ.Answer().IsAnswer() || !strings.HasPrefix(typ.Answer().String(), typ.String()+"_D") {
			t.Errorf("%s is answered by %s", typ, typ.Answer())
		}
	}
	if types.IsAnswer() || Type(0).IsAnswer() || (types + 1).IsAnswer() || Type(99).String() != "type 99" {
		t.Error("what is no type is one")
	}
}

// Given the header of a ping message, when it is encoded and decoded, then it is unchanged. A shorter or
// a different message is rejected.
//
// transport 10.3 ping
func TestPingHeader(t *testing.T) {
	h := PingHeader{Slot: 1, Sequence: 1 << 40, Sent: 3}
	b := make([]byte, PingHead+5)
	h.Put(b)
	if got, ok := ParsePing(b); !ok || got != h {
		t.Errorf("%+v", got)
	}
	if _, ok := ParsePing(b[:PingHead-1]); ok {
		t.Error("a descriptor is truncated")
	}
	b[0]++
	if _, ok := ParsePing(b); ok {
		t.Error("it has another magic")
	}
}

// Given messages with descriptors, when they are decoded, then all pairs are returned. An odd number, and
// messages that are truncated or too long, return EPROTO.
//
// transport 10.3 bulk
func TestBulkMessages(t *testing.T) {
	d := func(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }
	pairs := []Pair{{Send: d('a', 48), Recv: d('b', 48)}, {Send: d('c', 80), Recv: d('d', 1)}}
	b := AppendBulk(nil, pairs)
	got, err := ParseBulk(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pairs, got); diff != "" {
		t.Error(diff)
	}
	if one := AppendBulk(nil, pairs[:1]); len(one) != BulkSize(1, 48) {
		t.Errorf("%d bytes, not %d", len(one), BulkSize(1, 48))
	}
	if got, err := ParseBulk(nil, AppendBulk(nil, nil)); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	odd, huge, empty := bytes.Clone(b), bytes.Clone(b), bytes.Clone(b)
	odd[8]--
	huge[15] = 0x80
	empty[16] = 0
	for name, bad := range map[string][]byte{
		"nothing": nil, "head cut off": b[:15], "cut off": b[:len(b)-1], "too long": append(bytes.Clone(b), 0),
		"odd": odd, "huge": huge, "empty descriptor": empty, "another magic": append([]byte{9}, b[1:]...),
	} {
		if got, err := ParseBulk(nil, bad); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
