package fuzz

import (
	"bytes"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
)

// FuzzSocklndStream takes apart what one side of a connection may send, from
// the acceptor request on. Its units lie side by side and are bounded by the
// bytes there are.
func FuzzSocklndStream(f *testing.F) {
	for _, name := range []string{"a-tcp-ping-discovery-on", "j-ipv6-large-nid"} {
		rec, err := recording.Load(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range rec.Conversations {
			f.Add(c.Stream(recording.Active))
			f.Add(c.Stream(recording.Passive))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		units, err := recording.Parse(b)
		var whole []byte
		for i := range units {
			if units[i].Offset != len(whole) {
				t.Fatalf("unit %d at byte %d, want %d", i, units[i].Offset, len(whole))
			}
			whole = append(whole, units[i].Raw...)
		}
		if !bytes.HasPrefix(b, whole) || err == nil && len(whole) != len(b) {
			t.Fatalf("units cover %d bytes of %d, error %v", len(whole), len(b), err)
		}
	})
}

// eachRecorded walks over the units of all recordings of TCP conversations.
func eachRecorded(f *testing.F, visit func(*recording.Unit)) {
	f.Helper()
	for _, name := range recording.Names() {
		rec, err := recording.Load(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range rec.Conversations {
			units, err := c.Units()
			if err != nil {
				f.Fatal(err)
			}
			for i := range units {
				visit(&units[i].Unit)
			}
		}
	}
}
