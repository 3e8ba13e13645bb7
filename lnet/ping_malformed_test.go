package lnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Everything that lnet-wire 7.7 rejects, and unreasonable sizes.
//
// discovery 4.2
// lnet-wire 7.7
func TestDecodePingInfoRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"magic", le(0x12345678, 0x1e, 12345, 1, 0, loWord, 1, 0), "magic 0x12345678"},
		{"no NI_STATUS", le(MagicPing, 0x1c, 12345, 1, 0, loWord, 1, 0), "pi_features RTE_DISABLED|MULTI_RAIL|DISCOVERY: required bit NI_STATUS"},
		{"no entry", le(MagicPing, 0x1e, 12345, 0, 0, loWord, 1, 0), "pi_nnis 0"},
		{"too many", le(MagicPing, 0x1e, 12345, 17, 0, loWord, 1, 0), "pi_nnis 17: more than 16"},
		{"far too many", le(MagicPing, 0x1e, 12345, 0xffffffff, 0, loWord, 1, 0), "pi_nnis 4294967295: more than 16"},
		{"first is not 0@lo", le(MagicPing, 0x1e, 12345, 1, 0x0a000001, 0x00020000, 1, 0), "ns_nid 0x000200000a000001"},
		{"first is 1@lo", le(MagicPing, 0x1e, 12345, 1, 1, loWord, 1, 0), "ns_nid 0x0009000000000001"},
		{"first is nothing", le(MagicPing, 0x1e, 12345, 1, 0, 0, 1, 0), "ns_nid 0x0000000000000000"},
		{"large, no size", le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, 0), "ns_msg_size 0: not within 32 to"},
		{"large, size too small", le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, 31), "ns_msg_size 28: not within 32 to"},
		{"large, size too large", le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, 32+16*24+4), "ns_msg_size 420"},
		{"large, size huge", le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, 0xffffffff), "ns_msg_size 4294967292"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodePingInfo(tt.b, 16)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			wantNamed(t, err)
			if diff := diffInfo(PingInfo{}, got); diff != "" {
				t.Errorf("beside the error:\n%s", diff)
			}
		})
	}
}

// discovery 4.2
// lnet-wire 7.7
func TestDecodePingInfoEntryLimit(t *testing.T) {
	p := PingInfo{Features: FeatNIStatus, NIs: []PingNI{
		{mustNID(t, "10.0.0.1@tcp"), StatusUp}, {mustNID(t, "2001:db8::1@tcp"), StatusUp},
	}}
	b := p.Append(nil, binary.LittleEndian)
	if _, err := DecodePingInfo(b, 3); err != nil {
		t.Errorf("0@lo and two more of at most 3: %v", err)
	}
	_, err := DecodePingInfo(b, 2)
	if err == nil || !strings.Contains(err.Error(), "entries 3: more than 2") {
		t.Errorf("0@lo and two more of at most 2: %v", err)
	}
	for _, limit := range []int{0, -1} {
		if _, err := DecodePingInfo(b, limit); err == nil {
			t.Errorf("at most %d: no error", limit)
		}
	}
}

// A truncated ping info gives the entries that fit, and the size to ask for.
func TestPingInfoTruncation(t *testing.T) {
	for _, g := range goldenPings(t) {
		b := unhex(t, g.dump)
		end := len(b)
		if len(g.want.Metadata) > 0 {
			end = 48
		}
		everyTruncation(t, b[:end], func(b []byte) error {
			got, err := DecodePingInfo(b, InterfacesMax)
			var short *TruncatedError
			if !errors.As(err, &short) {
				return err
			}
			want := end
			switch {
			case len(b) < 16:
				want = 16
			case len(b) < 32:
				want = 16 + 16*int(binary.LittleEndian.Uint32(b[12:])) // large entries are not counted yet
			}
			if short.Need != want || short.Have != len(b) {
				t.Errorf("%s: %d bytes: %+v, want %d needed", g.name, len(b), *short, want)
			}
			if len(b) >= 16 && got.Features != g.want.Features {
				t.Errorf("%s: %d bytes: features %v", g.name, len(b), got.Features)
			}
			if len(b) >= 32 && got.Seq != g.want.Seq {
				t.Errorf("%s: %d bytes: sequence %d", g.name, len(b), got.Seq)
			}
			for i, ni := range got.NIs {
				if ni != g.want.NIs[i] {
					t.Errorf("%s: %d bytes: NI %d is %v", g.name, len(b), i, ni)
				}
			}
			return err
		})
	}
}

func TestTruncatedPingInfoHasWholeEntries(t *testing.T) {
	g := goldenPings(t)[2]
	b := unhex(t, g.dump)
	for n, want := range map[int]int{31: 0, 32: 0, 47: 0, 48: 1, 71: 1} {
		got, err := DecodePingInfo(b[:n], InterfacesMax)
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got.NIs) != want {
			t.Errorf("%d bytes: %d NIs, %v, want %d", n, len(got.NIs), err, want)
		}
	}
}

// Metadata may be truncated anywhere (lnet-wire 7.4).
//
// lnet-wire 7.4 (2)
func TestMetadataTruncation(t *testing.T) {
	p := goldenPings(t)[5].want
	p.Metadata = append(p.Metadata, PingMetadata{NID: mustNID(t, "10.0.0.2@efa")})
	b := p.Append(nil, binary.LittleEndian)
	for n := 48; n < len(b); n++ {
		got, err := DecodePingInfo(b[:n], InterfacesMax)
		if want := max(n-52, 0) / 40; err != nil || len(got.Metadata) != want {
			t.Errorf("%d bytes: %d of metadata, %v, want %d", n, len(got.Metadata), err, want)
		}
	}
}

func TestMetadataSkipsBadNIDs(t *testing.T) {
	b := unhex(t, goldenPings(t)[5].dump)
	b[52+7] = 1
	got, err := DecodePingInfo(b, InterfacesMax)
	if err != nil || len(got.Metadata) != 0 {
		t.Errorf("metadata %v, %v", got.Metadata, err)
	}
}

// largeEntry returns a large entry with the given size byte and the length that it implies.
func largeEntry(size int, nid NID) []byte {
	b := nid.AppendLarge(le(uint32(StatusUp)))
	b[4] = byte(size)
	b = append(b, make([]byte, 300)...)
	return b[:4+(8+size+3)&^3]
}

// Each entry is skipped by its own length. Only valid addresses are kept.
//
// discovery 4.1
// lnet-wire 7.4 (1)
func TestLargeEntrySizes(t *testing.T) {
	large, small := mustNID(t, "2001:db8::1@tcp"), mustNID(t, "10.0.0.7@tcp")
	for size := range 256 {
		first := large
		if size == 0 {
			first = small
		}
		entries := append(largeEntry(size, first), largeEntry(12, large)...)
		b := append(le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, uint32(32+len(entries))), entries...)
		got, err := DecodePingInfo(b, InterfacesMax)
		if err != nil {
			t.Errorf("size %d: %v", size, err)
			continue
		}
		var want []PingNI
		if size == 0 || size == 12 {
			want = append(want, PingNI{first, StatusUp})
		}
		want = append(want, PingNI{large, StatusUp})
		if diff := cmp.Diff(want, got.NIs, cmpopts.EquateComparable(NID{})); diff != "" {
			t.Errorf("size %d (-want +got):\n%s", size, diff)
		}
	}
}

// An entry that crosses the end ends the list without an error.
//
// discovery 4.2
func TestLargeEntryCrossesEnd(t *testing.T) {
	large := mustNID(t, "2001:db8::1@tcp")
	whole := largeEntry(12, large)
	for cut := 1; cut < len(whole); cut++ {
		entries := append(bytes.Clone(whole), whole[:len(whole)-cut]...)
		total := 32 + len(entries)
		b := append(le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, uint32(total)), entries...)
		got, err := DecodePingInfo(b, InterfacesMax)
		if err != nil || len(got.NIs) != 1 {
			t.Errorf("%d bytes missing: %d NIs, %v", cut, len(got.NIs), err)
		}
	}
}

// Bytes after the info, as in a larger buffer, are ignored.
func TestPingInfoTrailingBytes(t *testing.T) {
	for _, g := range goldenPings(t) {
		b := append(unhex(t, g.dump), bytes.Repeat([]byte{0x55}, 100)...)
		got, err := DecodePingInfo(b, InterfacesMax)
		if diff := diffInfo(g.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", g.name, err, diff)
		}
	}
}

// NIDs that no node can have, and this node's own, are skipped.
//
// discovery 4.2
// lnet-wire 2.3 (2), 7.4 (1)
func TestPingInfoSkipsUnusableNIDs(t *testing.T) {
	b := le(MagicPing, 0x1e, 12345, 6, 0, loWord, 1, 0)
	for _, nid4 := range []uint64{
		0, nid4Any, uint64(loWord) << 32, 0x0102_0000_0a00_0001, 0x0002_0000_0a00_0001,
	} {
		b = binary.LittleEndian.AppendUint64(b, nid4)
		b = append(b, le(uint32(StatusUp), 0)...)
	}
	got, err := DecodePingInfo(b, InterfacesMax)
	want := []PingNI{{mustNID(t, "10.0.0.1@tcp"), StatusUp}}
	if diff := cmp.Diff(want, got.NIs, cmpopts.EquateComparable(NID{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPingInfoBitFlips(t *testing.T) {
	for _, g := range goldenPings(t) {
		b := unhex(t, g.dump)
		everyBitFlip(t, b, 0, len(b), func(b []byte) error {
			_, err := DecodePingInfo(b, InterfacesMax)
			var short *TruncatedError
			if errors.As(err, &short) && short.Need > 16+(16+24)*InterfacesMax {
				t.Errorf("%s: asks for %d bytes", g.name, short.Need)
			}
			return err
		})
	}
}

// A short message that claims many entries causes no large allocation.
func TestDecodePingInfoBoundedAllocation(t *testing.T) {
	for name, b := range map[string][]byte{
		"small entries":     le(MagicPing, 0x1e, 12345, InterfacesMax, 0, loWord, 1, 0),
		"large entries":     le(MagicPing, 0x3e, 12345, 1, 0, loWord, 1, 16+24*InterfacesMax, 0, 0),
		"metadata":          append(le(MagicPing, 0x9e, 12345, 1, 0, loWord, 1, 0, 0xffffffff), make([]byte, 40)...),
		"metadata, no room": le(MagicPing, 0x9e, 12345, 1, 0, loWord, 1, 0, 0xffffffff),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const runs = 100
			for range runs {
				if _, err := DecodePingInfo(b, InterfacesMax); err != nil {
					wantNamed(t, err)
				}
			}
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > 2048 {
				t.Errorf("%d bytes allocated for %d", n, len(b))
			}
		})
	}
}
