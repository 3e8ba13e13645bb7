package protocol_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

var (
	net    = lnet.MakeNet(127, 1)
	client = lnet.NIDFromNumber(net, 1<<14|3)
	server = lnet.NIDFromNumber(net, 0x0a000001)
	put    = lnet.Header{
		Dest: server, Src: client, DestPID: lnet.PIDLustre, SrcPID: 0x80000001, Type: lnet.MsgPut, PayloadLength: 5,
		Handle: lnet.NoHandle, MatchBits: 7, Portal: 4,
	}
	get   = lnet.Header{Dest: server, Src: client, Type: lnet.MsgGet, Handle: lnet.Handle{Interface: 1, Object: 2}, Length: 4096}
	block = protocol.Block{
		Min: 1, Max: 3, ShortMax: 8192, Credits: 8, MaxPayload: lnet.MTU, Features: protocol.FeatureGet,
		NID: client, PID: 0x80000001, Incarnation: 0x1122334455667788, Role: protocol.Proxy,
	}
)

// messages returns a valid message of each type.
func messages() map[string]protocol.Message {
	return map[string]protocol.Message{
		"query":       {Type: protocol.Query, From: 1, Block: block},
		"reply":       {Type: protocol.Reply, From: 9, To: 1, Block: block},
		"short":       {Type: protocol.Short, From: 1, To: 9, Sequence: 1, Credits: 3, Length: 5, Header: put, Payload: []byte("hello")},
		"large put":   {Type: protocol.LargePut, From: 1, To: 9, Sequence: 2, Tag: 2, Length: 5, Header: put},
		"get":         {Type: protocol.GetOpt, From: 1, To: 9, Sequence: 3, Tag: 3, Length: 4096, Header: get},
		"nak":         {Type: protocol.Nak, From: 9, To: 1, Sequence: 4, Tag: 3},
		"bye":         {Type: protocol.Bye, From: 9, To: 1, Sequence: protocol.Unordered, Reason: protocol.Stale, Block: block},
		"probe":       {Type: protocol.Probe, From: 1, To: 9, Sequence: 5},
		"probe reply": {Type: protocol.ProbeReply, From: 9, To: 1, Sequence: 6},
		"credit":      {Type: protocol.Credit, From: 9, To: 1, Sequence: 7, Credits: 4},
	}
}

func encode(m *protocol.Message) []byte { return append(m.Append(nil), m.Payload...) }

// Each message is decoded to what was encoded, and has the length that the specification says.
func TestMessages(t *testing.T) {
	for name, m := range messages() {
		b := encode(&m)
		want := protocol.PrefixSize
		switch m.Type {
		case protocol.Nak, protocol.Probe, protocol.ProbeReply, protocol.Credit:
		default:
			want = 128 + len(m.Payload)
		}
		if len(b) != want {
			t.Errorf("%s: %d bytes, want %d", name, len(b), want)
		}
		var got protocol.Message
		if err := got.Decode(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(got.Payload) == 0 {
			got.Payload = nil
		}
		if diff := cmp.Diff(m, got, cmp.Comparer(func(x, y lnet.NID) bool { return x == y })); diff != "" {
			t.Errorf("%s (-encoded +decoded):\n%s", name, diff)
		}
		for n := range len(b) {
			if err := got.Decode(b[:n]); err == nil {
				t.Errorf("%s: %d of its %d bytes are accepted", name, n, len(b))
			} else if n < protocol.PrefixSize && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %d bytes: %v", name, n, err)
			}
		}
	}
}

// The bytes of a message are those of the specification.
func TestGolden(t *testing.T) {
	m := messages()["reply"]
	got := fmt.Sprintf("%x", encode(&m))
	want := "4c49504d" + "01" + "02" + "0000" + "09000000" + "01000000" + "00000000" + "00000000" + "00000000" + "00000000" +
		"0100" + "0300" + "00200000" + "08000000" + "00001000" + "0100000000000000" +
		"007f000100004003" + "000000000000000000000000" + "01000080" + "8877665544332211" + "01" +
		fmt.Sprintf("%078x", 0)
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// A message with a wrong field is rejected, with an error that names the field.
func TestRejected(t *testing.T) {
	valid := messages()
	for name, c := range map[string]struct {
		of     string
		change func(m *protocol.Message)
		field  string
	}{
		"a type that does not exist":      {"probe", func(m *protocol.Message) { m.Type = 11 }, "type"},
		"no type":                         {"probe", func(m *protocol.Message) { m.Type = 0 }, "type"},
		"a tag of a short message":        {"short", func(m *protocol.Message) { m.Tag = 2 }, "tag"},
		"a large message without a tag":   {"large put", func(m *protocol.Message) { m.Tag = 0 }, "tag"},
		"a large message with an odd tag": {"large put", func(m *protocol.Message) { m.Tag = 3 }, "tag"},
		"a large tag":                     {"large put", func(m *protocol.Message) { m.Tag = protocol.MaxTag + 2 }, "tag"},
		"a GET with an even tag":          {"get", func(m *protocol.Message) { m.Tag = 2 }, "tag"},
		"a GET with the tag of messages":  {"get", func(m *protocol.Message) { m.Tag = 1 }, "tag"},
		"a NAK with an even tag":          {"nak", func(m *protocol.Message) { m.Tag = 2 }, "tag"},
		"an incomplete payload":           {"short", func(m *protocol.Message) { m.Payload = m.Payload[:4] }, "length"},
		"another length than the header":  {"large put", func(m *protocol.Message) { m.Length = 6 }, "length"},
		"a large message that is a GET":   {"large put", func(m *protocol.Message) { m.Header = get }, "length"},
		"an optimized GET that is a PUT":  {"get", func(m *protocol.Message) { m.Header = put }, "length"},
		"memory of more than 1 MiB":       {"get", func(m *protocol.Message) { m.Length = lnet.MTU + 1 }, "length"},
		"a probe with a payload":          {"probe", func(m *protocol.Message) { m.Payload = []byte("x") }, "length"},
		"a BYE without a reason":          {"bye", func(m *protocol.Message) { m.Reason = 0 }, "reason"},
		"an unknown reason":               {"bye", func(m *protocol.Message) { m.Reason = 8 }, "reason"},
		"a reason of a probe":             {"probe", func(m *protocol.Message) { m.Reason = 1 }, "reason"},
		"no credits":                      {"query", func(m *protocol.Message) { m.Block.Credits = 0 }, "credits"},
	} {
		m := valid[c.of]
		c.change(&m)
		var got protocol.Message
		var field *lnet.FieldError
		if err := got.Decode(encode(&m)); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want an error about %s", name, err, c.field)
		}
	}
}

// A message that is not of the protocol is distinguished from one of another version. Messages with a block are read in
// every version, so that both sides learn that they have no common version.
func TestMagicAndVersion(t *testing.T) {
	valid := messages()
	short, query := valid["short"], valid["query"]
	var m protocol.Message
	var magic *lnet.MagicError
	var version *lnet.VersionError
	b := encode(&short)
	b[4] = 2
	if err := m.Decode(b); !errors.As(err, &version) || version.Version != 2 {
		t.Errorf("version 2: %v", err)
	}
	b[0]++
	if err := m.Decode(b); !errors.As(err, &magic) {
		t.Errorf("another magic: %v", err)
	}
	b = encode(&query)
	b[4] = 2
	if err := m.Decode(b); err != nil {
		t.Errorf("a query of version 2: %v", err)
	}
	for _, c := range []struct {
		low, high uint16
		agree     bool
	}{{1, 1, true}, {0, 3, true}, {2, 3, false}, {0, 0, false}} {
		k := protocol.Block{Min: c.low, Max: c.high}
		if err := k.Agree(); c.agree != (err == nil) || !c.agree && !errors.As(err, &version) {
			t.Errorf("versions %d to %d: %v", c.low, c.high, err)
		}
	}
}

// Types and reasons have texts, also unknown ones.
func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		protocol.LargePut.String(): "LARGE_PUT", protocol.Type(0).String(): "type 0", protocol.Type(99).String(): "type 99",
		protocol.Stale.String(): "link unknown", protocol.Reason(99).String(): "reason 99",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
