package lnet

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Features that nobody knows yet change nothing of what is understood.
//
// lnet-wire 7.3 (2)
func TestUnknownFeatures(t *testing.T) {
	for _, g := range goldenPings(t) {
		b := unhex(t, g.dump)
		const unknown = 0xffffff00
		binary.LittleEndian.PutUint32(b[4:], binary.LittleEndian.Uint32(b[4:])|unknown)
		got, err := DecodePingInfo(b, InterfacesMax)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if got.Features &= ^Features(unknown); cmp.Diff(g.want, got, cmp.Comparer(func(a, b NID) bool { return a == b })) != "" {
			t.Errorf("%s: %+v, want %+v", g.name, got, g.want)
		}
	}
}
