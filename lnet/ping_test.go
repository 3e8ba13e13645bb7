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
	"pgregory.net/rapid"
)

const featuresHost = FeatNIStatus | FeatRoutingDisabled | FeatMultiRail | FeatDiscovery // 0x1e

type goldenPing struct {
	name    string
	dump    string
	want    PingInfo
	primary string
}

// The ping infos of lnet-wire 11.3 and 11.4, and one with metadata.
func goldenPings(t testing.TB) []goldenPing {
	up := func(nid string) PingNI { return PingNI{mustNID(t, nid), StatusUp} }
	return []goldenPing{
		{
			name: "one NI",
			dump: `67 6e 69 70 1e 00 00 00 39 30 00 00 02 00 00 00
			       00 00 00 00 00 00 09 00 07 00 00 00 00 00 00 00
			       14 01 a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00`,
			want: PingInfo{
				Features: featuresHost, PID: PIDLustre, Seq: 7, NIs: []PingNI{up("192.168.1.20@tcp")},
			},
			primary: "192.168.1.20@tcp",
		},
		{
			name: "two NIs, one down",
			dump: `67 6e 69 70 1e 00 00 00 39 30 00 00 03 00 00 00
			       00 00 00 00 00 00 09 00 03 00 00 00 00 00 00 00
			       0a 01 a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00
			       0a 00 00 0a 01 00 02 00 ce fa ad de 00 00 00 00`,
			want: PingInfo{
				Features: featuresHost, PID: PIDLustre, Seq: 3,
				NIs: []PingNI{up("192.168.1.10@tcp"), {mustNID(t, "10.0.0.10@tcp1"), StatusDown}},
			},
			primary: "192.168.1.10@tcp",
		},
		{
			name: "IPv4 and IPv6",
			dump: `67 6e 69 70 3e 00 00 00 39 30 00 00 02 00 00 00
			       00 00 00 00 00 00 09 00 04 00 00 00 48 00 00 00
			       14 01 a8 c0 00 00 02 00 de c0 aa 15 00 00 00 00
			       de c0 aa 15 0c 02 00 00 20 01 0d b8 00 00 00 00
			       00 00 00 00 00 00 00 20`,
			want: PingInfo{
				Features: featuresHost | FeatLargeAddr, PID: PIDLustre, Seq: 4,
				NIs: []PingNI{up("192.168.1.20@tcp"), up("2001:db8::20@tcp")},
			},
			primary: "192.168.1.20@tcp",
		},
		{
			name: "IPv6 only",
			dump: `67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00
			       00 00 00 00 00 00 09 00 01 00 00 00 38 00 00 00
			       de c0 aa 15 0c 02 00 00 20 01 0d b8 00 00 00 00
			       00 00 00 00 00 00 00 20`,
			want: PingInfo{
				Features: featuresHost | FeatLargeAddr | FeatPrimaryLarge, PID: PIDLustre, Seq: 1,
				NIs: []PingNI{up("2001:db8::20@tcp")},
			},
			primary: "2001:db8::20@tcp",
		},
		{
			name: "loopback only",
			dump: `67 6e 69 70 1e 00 00 00 39 30 00 00 01 00 00 00
			       00 00 00 00 00 00 09 00 01 00 00 00 00 00 00 00`,
			want: PingInfo{Features: featuresHost, PID: PIDLustre, Seq: 1},
		},
		{
			name: "metadata",
			dump: `67 6e 69 70 9e 00 00 00 39 30 00 00 02 00 00 00
			       00 00 00 00 00 00 09 00 02 00 00 00 00 00 00 00
			       01 00 00 0a 00 00 12 00 de c0 aa 15 00 00 00 00
			       01 00 00 00
			       01 00 00 0a 00 00 12 00
			       6d 65 74 61 00 00 00 00 00 00 00 00 00 00 00 00
			       00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00`,
			want: PingInfo{
				Features: featuresHost | FeatMetadata, PID: PIDLustre, Seq: 2, NIs: []PingNI{up("10.0.0.1@efa")},
				Metadata: []PingMetadata{{mustNID(t, "10.0.0.1@efa"), [32]byte{'m', 'e', 't', 'a'}}},
			},
			primary: "10.0.0.1@efa",
		},
	}
}

func diffInfo(want, got PingInfo) string {
	return cmp.Diff(want, got, cmpopts.EquateComparable(NID{}), cmpopts.EquateEmpty())
}

// discovery 4.1
// lnet-wire 7.2, 7.4 (1), 11.4
func TestPingInfoGolden(t *testing.T) {
	for _, g := range goldenPings(t) {
		t.Run(g.name, func(t *testing.T) {
			dump := unhex(t, g.dump)
			got, err := DecodePingInfo(dump, InterfacesMax)
			if diff := diffInfo(g.want, got); err != nil || diff != "" {
				t.Fatalf("decodes with %v (-want +got):\n%s", err, diff)
			}
			if b := g.want.Append([]byte{9}, binary.LittleEndian); !bytes.Equal(b[1:], dump) {
				t.Errorf("encodes to\n% x, want\n% x", b[1:], dump)
			}
			if g.want.Size() != len(dump) {
				t.Errorf("size %d, want %d", g.want.Size(), len(dump))
			}
			primary, ok := got.Primary()
			if primary.String() != g.primary || ok != (g.primary != "") {
				t.Errorf("primary %v, %v, want %s", primary, ok, g.primary)
			}
		})
	}
}

// Bytes of a big-endian sender: numbers swapped, large NIDs not.
//
// discovery 4.1
// lnet-wire 1, 2.3 (1), 7.2
func TestPingInfoBigEndian(t *testing.T) {
	dump := unhex(t, `70 69 6e 67 00 00 00 3e 00 00 30 39 00 00 00 02
	                  00 09 00 00 00 00 00 00 00 00 00 04 00 00 00 48
	                  00 02 00 00 c0 a8 01 14 15 aa c0 de 00 00 00 00
	                  15 aa c0 de 0c 02 00 00 20 01 0d b8 00 00 00 00
	                  00 00 00 00 00 00 00 20`)
	want := goldenPings(t)[2].want
	got, err := DecodePingInfo(dump, InterfacesMax)
	if diff := diffInfo(want, got); err != nil || diff != "" {
		t.Fatalf("decodes with %v (-want +got):\n%s", err, diff)
	}
	if b := want.Append(nil, binary.BigEndian); !bytes.Equal(b, dump) {
		t.Errorf("encodes to\n% x, want\n% x", b, dump)
	}
}

// discovery 4.1
func TestPingInfoRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genPingInfo().Draw(t, "info")
		for _, o := range orders {
			b := want.Append(nil, o.append)
			if len(b) != want.Size() {
				t.Fatalf("%s: %d bytes, Size is %d", o.name, len(b), want.Size())
			}
			got, err := DecodePingInfo(b, InterfacesMax)
			if diff := diffInfo(want, got); err != nil || diff != "" {
				t.Fatalf("%s: %v (-want +got):\n%s", o.name, err, diff)
			}
		}
	})
}

// Entries come small first, and what nobody can reach does not come at all.
//
// lnet-wire 7.5 (1)
func TestPingInfoAppendSortsAndFilters(t *testing.T) {
	small, large := mustNID(t, "10.0.0.1@tcp"), mustNID(t, "2001:db8::1@tcp")
	p := PingInfo{
		Features: FeatNIStatus,
		NIs:      []PingNI{{large, StatusUp}, {AnyNID, StatusUp}, {small, StatusDown}, {LoopbackNID, StatusUp}, {}},
		Metadata: []PingMetadata{{NID: large}, {NID: AnyNID}, {}},
	}
	b := p.Append(nil, binary.LittleEndian)
	if len(b) != p.Size() {
		t.Errorf("%d bytes, Size is %d", len(b), p.Size())
	}
	got, err := DecodePingInfo(b, InterfacesMax)
	want := PingInfo{
		Features: FeatNIStatus | FeatLargeAddr, NIs: []PingNI{{small, StatusDown}, {large, StatusUp}},
	}
	if diff := diffInfo(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPingInfoFeatureFollowsList(t *testing.T) {
	p := PingInfo{Features: FeatNIStatus | FeatLargeAddr, NIs: []PingNI{{mustNID(t, "10.0.0.1@tcp"), StatusUp}}}
	b := p.Append(nil, binary.LittleEndian)
	if got := Features(binary.LittleEndian.Uint32(b[4:])); got != FeatNIStatus {
		t.Errorf("features %v without a large NID", got)
	}
	if p.Features != FeatNIStatus|FeatLargeAddr {
		t.Errorf("Append changes the info's features to %v", p.Features)
	}
}

// le is a little-endian ping info from its words.
func le(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

const loWord = 0x00090000 // high half of the nid4 of 0@lo

// Everything that lnet-wire 7.7 has refused, and claims beyond reason.
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
		{"no NI_STATUS", le(MagicPing, 0x1c, 12345, 1, 0, loWord, 1, 0), "pi_features RTE_DISABLED|MULTI_RAIL|DISCOVERY: NI_STATUS"},
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

// What a short buffer got is there, with the size to ask for.
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
				want = 16 + 16*int(binary.LittleEndian.Uint32(b[12:])) // large ones are not known yet
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

// Metadata may be cut off anywhere (lnet-wire 7.4).
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

// An efa NID alone announces metadata, too.
//
// discovery 4.1
func TestMetadataOfEFA(t *testing.T) {
	b := unhex(t, goldenPings(t)[5].dump)
	b[4] = 0x1e
	got, err := DecodePingInfo(b, InterfacesMax)
	if err != nil || len(got.Metadata) != 1 {
		t.Errorf("efa NID: metadata %v, %v", got.Metadata, err)
	}
	b[32+6] = byte(TypeTCP)
	got, err = DecodePingInfo(b, InterfacesMax)
	if err != nil || len(got.Metadata) != 0 {
		t.Errorf("tcp NID: metadata %v, %v", got.Metadata, err)
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

// largeEntry is a large entry with that size byte, of the length that it
// implies.
func largeEntry(size int, nid NID) []byte {
	b := nid.AppendLarge(le(uint32(StatusUp)))
	b[4] = byte(size)
	b = append(b, make([]byte, 300)...)
	return b[:4+(8+size+3)&^3]
}

// Each size is stepped over by its own length; only real addresses are kept.
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

// An entry beyond the end ends the list without an error.
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

// Bytes after the info, as in a buffer larger than it, mean nothing.
func TestPingInfoTrailingBytes(t *testing.T) {
	for _, g := range goldenPings(t) {
		b := append(unhex(t, g.dump), bytes.Repeat([]byte{0x55}, 100)...)
		got, err := DecodePingInfo(b, InterfacesMax)
		if diff := diffInfo(g.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", g.name, err, diff)
		}
	}
}

// NIDs that would make a peer of nobody, or of ourselves, are left out.
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

// discovery 4.3
// lnet-wire 7.5 (2)
func TestPingInfoPrimary(t *testing.T) {
	small, large := PingNI{NID: mustNID(t, "10.0.0.1@tcp")}, PingNI{NID: mustNID(t, "2001:db8::1@tcp")}
	for _, tt := range []struct {
		name     string
		features Features
		nis      []PingNI
		want     NID
	}{
		{"nothing", 0, nil, NID{}},
		{"nothing, large asked for", FeatPrimaryLarge, nil, NID{}},
		{"small", 0, []PingNI{small, large}, small.NID},
		{"large", FeatPrimaryLarge, []PingNI{small, large}, large.NID},
		{"large asked for, none there", FeatPrimaryLarge, []PingNI{small}, small.NID},
		{"large only, not asked for", 0, []PingNI{large}, NID{}},
	} {
		got, ok := (&PingInfo{Features: tt.features, NIs: tt.nis}).Primary()
		if got != tt.want || ok != !tt.want.IsZero() {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, ok, tt.want)
		}
	}
}

// A few bytes that claim much cost little.
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

func TestPingInfoAppendDoesNotAllocate(t *testing.T) {
	for _, g := range goldenPings(t) {
		buf := make([]byte, 0, g.want.Size())
		if n := testing.AllocsPerRun(100, func() { buf = g.want.Append(buf[:0], binary.LittleEndian) }); n != 0 {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
}

// lnet-wire 7.6 (1)
func TestPingBufferMin(t *testing.T) {
	if PingBufferMin != 272 {
		t.Errorf("PingBufferMin = %d", PingBufferMin)
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

func TestNIStatusText(t *testing.T) {
	for s, want := range map[NIStatus]string{
		StatusUp: "up", StatusDown: "down", StatusInvalid: "invalid", 0x15: "0x15",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#x prints %q, want %q", uint32(s), got, want)
		}
	}
}
