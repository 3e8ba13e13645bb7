package recording

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Counts from the notes beside the recordings. Every packet belongs to a connection that was recorded
// from its start, or is skipped.
func TestRDMACountsAreThoseOfTheNotes(t *testing.T) {
	type counts struct {
		Packets, Skipped, Connections int
		Transfers                     map[string]int
		Written                       int // bytes by each RDMA WRITE
	}
	want := map[string]counts{
		"k-o2ib-rxe-ping-4k": {
			Packets: 135, Connections: 1, Written: 4096, Transfers: map[string]int{"REQ": 1, "REP": 1, "RTU": 1, "SEND": 56, "RDMA_WRITE": 4},
		},
		"k-o2ib-rxe-brw-1m": {
			Packets: 2145, Connections: 1, Written: 1 << 20, Transfers: map[string]int{"REQ": 1, "REP": 1, "RTU": 1, "SEND": 31, "RDMA_WRITE": 2},
		},
		"o2-o2ib-credits-mismatch": {
			Packets: 534, Connections: 6, Written: 4096,
			Transfers: map[string]int{"REQ": 6, "REP": 4, "RTU": 4, "REJ": 2, "SEND": 199, "RDMA_WRITE": 24},
		},
		// The nodes had connected before the recorder was started.
		"o3-o2ib-router-tcp": {Packets: 164, Skipped: 164, Transfers: map[string]int{}},
		"o4-o2ib-two-rails": {
			Packets: 131, Connections: 3, Transfers: map[string]int{"REQ": 3, "REP": 3, "RTU": 3, "SEND": 60},
		},
	}
	for name, w := range want {
		load := LoadRDMA
		if strings.HasPrefix(name, "o3") {
			load = mixed
		}
		rec, err := load(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := counts{Packets: rec.Packets, Skipped: rec.Skipped, Connections: len(rec.Conversations), Transfers: map[string]int{}}
		for _, c := range rec.Conversations {
			for _, x := range c.Transfers {
				got.Transfers[x.Kind.String()]++
				if x.Kind == Written {
					got.Written = len(x.Data)
				}
			}
			if c.Port != 1023 {
				t.Errorf("%s: from port %d", name, c.Port)
			}
		}
		t.Logf("%s: %d connections, %d of %d packets skipped", name, got.Connections, got.Skipped, got.Packets)
		if d := cmp.Diff(w, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// mixed reads the RoCE traffic in a recording of TCP.
func mixed(name string) (*RDMARecording, error) {
	f, err := files.Open("testdata/" + name + ".pcap.gz")
	if err != nil {
		return nil, err
	}
	return ReadRDMA(f)
}

// A recording that is cut anywhere returns an error or fewer transfers, and never panics.
func TestRDMARecordingsCutShort(t *testing.T) {
	f, err := roceFiles.ReadFile("testdata/roce/k-o2ib-rxe-ping-4k.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(f); n += 97 {
		if _, err := ReadRDMA(bytes.NewReader(f[:n])); err == nil {
			t.Errorf("%d of %d bytes pass", n, len(f))
		}
	}
	// A packet that is cut short.
	for _, link := range []linkType{linkEthernet, linkRawIP} {
		for n := range 80 {
			_, _, _ = parseRoCE(link, make([]byte, n))
		}
	}
}
