package lnet

import (
	"bytes"
	"encoding/binary"
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

// Bytes of a big-endian sender: numbers are swapped, large NIDs are not.
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
		for _, o := range byteOrders {
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

// Small entries come first, and unreachable NIDs are omitted.
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

// le returns a little-endian ping info made of the given words.
func le(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

const loWord = 0x00090000 // high half of the nid4 of 0@lo

// An efa NID announces metadata even without FeatMetadata.
//
// discovery 4.1
// sanity-lnet 11 (270)
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

func TestNIStatusText(t *testing.T) {
	for s, want := range map[NIStatus]string{
		StatusUp: "up", StatusDown: "down", StatusInvalid: "invalid", 0x15: "0x15",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#x prints %q, want %q", uint32(s), got, want)
		}
	}
}
