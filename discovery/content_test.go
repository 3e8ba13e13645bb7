package discovery

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// discovery 4.2, 6.7 reply (6), 6.7 push (7)
func TestRead(t *testing.T) {
	info := lnet.PingInfo{Features: lnet.FeatNIStatus | lnet.FeatMultiRail, Seq: 2}
	for k := range 3 {
		info.NIs = append(info.NIs, lnet.PingNI{NID: manyNID(0, k+1), Status: lnet.StatusUp})
	}
	whole := info.Append(nil, binary.LittleEndian)
	huge := append([]byte(nil), whole...)
	huge[12] = 200 // entries
	for _, c := range []struct {
		name       string
		b          []byte
		cut        bool
		max        int
		size       int
		short, bad bool
	}{
		{name: "whole", b: whole, max: 16, size: 80},
		{name: "whole, and more was sent", b: whole, cut: true, max: 16, size: 80},
		{name: "cut", b: whole[:70], cut: true, max: 16, size: 80, short: true},
		{name: "cut within the header", b: whole[:7], cut: true, max: 16, size: 16, short: true},
		{name: "shorter than its header says", b: whole[:70], max: 16, size: 80, short: true, bad: true},
		{name: "too many entries", b: huge, cut: true, max: 16, bad: true},
		{name: "long", b: huge, cut: true, max: 4096, size: 16 + 16*200, short: true},
		{name: "no ping info", b: make([]byte, 64), max: 16, bad: true},
	} {
		got := Read(c.b, c.cut, c.max)
		if got.Size != c.size || got.Short != c.short || (got.Err != nil) != c.bad || got.Cut != c.cut {
			t.Errorf("%s: size %d, short %v, cut %v: %v", c.name, got.Size, got.Short, got.Cut, got.Err)
		}
	}
}

// discovery 7.7 (1)-(2)
func TestPeerErrorText(t *testing.T) {
	a, b := manyNID(0, 1), manyNID(1, 2)
	for want, err := range map[string]error{
		"add peer 10.0.0.1@tcp: already exists":                       peerError("add", a, a, ErrExists),
		"add to peer 10.0.0.1@tcp: nid 10.0.0.2@tcp1: already exists": peerError("add to", a, b, ErrExists),
	} {
		if err.Error() != want || !errors.Is(err, ErrExists) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if peerError("add", a, a, nil) != nil {
		t.Error("an error without a reason")
	}
}
