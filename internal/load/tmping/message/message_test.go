package message

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Given messages of each kind, when they are encoded, then they have the bytes of the text protocol, and
// can be decoded.
//
// transport 10.1 protocol
func TestBytes(t *testing.T) {
	descriptor := bytes.Repeat([]byte{0, 0xff}, 24)
	for _, c := range []struct {
		name string
		made []byte
		want string
		m    Message
	}{
		{"ping", AppendText(nil, PingText), "mping\x00", Message{Kind: 'm', Text: []byte("ping")}},
		{"answer", AppendText(nil, PingText+PongText), "mping pong\x00", Message{Kind: 'm', Text: []byte("ping pong")}},
		{"bulk to come", AppendRequest(nil, Recv, descriptor, 0), "r00000048\x0000000000\x00" + string(descriptor),
			Message{Kind: 'r', Descriptor: descriptor}},
		{"bulk to fetch", AppendRequest(nil, Send, descriptor, 1<<20), "s00000048\x0001048576\x00" + string(descriptor),
			Message{Kind: 's', Descriptor: descriptor, Size: 1 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if string(c.made) != c.want {
				t.Errorf("%q, want %q", c.made, c.want)
			}
			m, err := Parse(c.made)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.m, m); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Given malformed messages, when they are decoded, then the error has the reason.
func TestBrokenMessages(t *testing.T) {
	for _, c := range []struct{ bytes, why string }{
		{"", "empty"},
		{"mping", "no NUL"},
		{"x", "kind"},
		{"r", "8 digits"},
		{"r00000048", "8 digits"},
		{"r00000048\x00", "8 digits"},
		{"r0000004x\x0000000000\x00d", "8 digits"},
		{"r+0000048\x0000000000\x00d", "8 digits"},
		{"r00000001\x0000000000 d", "8 digits"},
		{"s00000048\x0000000000\x00short", "truncated"},
		{"s00000000\x0000000000\x00", "truncated"},
	} {
		if m, err := Parse([]byte(c.bytes)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: %+v, %v", c.bytes, m, err)
		}
	}
}

// Given bulk of a size, when it is filled, then it passes the check. With one wrong byte or another size,
// it fails.
func TestPattern(t *testing.T) {
	for _, size := range []int{1, 2, 3, 11, 4096} {
		b := make([]byte, size)
		PutPattern(b)
		if err := CheckBulk(b, size, ""); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := CheckBulk(b, size+1, ""); err == nil {
			t.Errorf("%d bytes pass for more", size)
		}
		b[size-1] ^= 1
		if err := CheckBulk(b, size, ""); err == nil {
			t.Errorf("%d bytes pass with one wrong", size)
		}
	}
	b := make([]byte, 12)
	PutPattern(b)
	if string(b) != "mabcdefghia\x00" {
		t.Errorf("%q", b)
	}
	if err := CheckBulk(AppendText(nil, ActiveText), 0, ActiveText); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "m" + PassiveText + "\x00", "r00000001\x0000000000\x00d"} {
		if CheckBulk([]byte(wrong), 0, ActiveText) == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}
