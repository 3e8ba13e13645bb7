package lnet

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Unknown feature bits do not change how the rest is decoded.
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

func TestFeaturesText(t *testing.T) {
	for f, want := range map[Features]string{
		0x00:       "0",
		0x1e:       "NI_STATUS|RTE_DISABLED|MULTI_RAIL|DISCOVERY",
		0x7e:       "NI_STATUS|RTE_DISABLED|MULTI_RAIL|DISCOVERY|LARGE_ADDR|PRIMARY_LARGE",
		0x81:       "BASE|METADATA",
		0x102:      "NI_STATUS|0x100",
		0x80000000: "0x80000000",
	} {
		if got := f.String(); got != want {
			t.Errorf("%#x prints %q, want %q", uint32(f), got, want)
		}
	}
}
