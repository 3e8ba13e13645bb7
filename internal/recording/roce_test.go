package recording

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the notes taken beside the recordings counted.
func TestRDMACountsAreThoseOfTheNotes(t *testing.T) {
	want := map[string]map[string]int{
		"k-o2ib-rxe-ping-4k": {"REQ": 1, "REP": 1, "RTU": 1, "SEND": 56, "RDMA_WRITE": 4},
		"k-o2ib-rxe-brw-1m":  {"REQ": 1, "REP": 1, "RTU": 1, "SEND": 31, "RDMA_WRITE": 2},
	}
	for _, name := range RDMANames() {
		all, err := LoadRDMA(name)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %d conversations, %v", name, len(all), err)
		}
		count := map[string]int{}
		bytesWritten := 0
		for _, x := range all[0].Transfers {
			count[x.Kind.String()]++
			if x.Kind == Written {
				bytesWritten += len(x.Data)
			}
		}
		if d := cmp.Diff(want[name], count); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		each := 4096
		if strings.Contains(name, "1m") {
			each = 1 << 20
		}
		if bytesWritten != count["RDMA_WRITE"]*each {
			t.Errorf("%s: %d bytes written", name, bytesWritten)
		}
		if all[0].Port != 1023 {
			t.Errorf("%s: from port %d", name, all[0].Port)
		}
	}
}

// A recording that is cut anywhere is an error, or has less in it, and never panics.
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
	// A packet that is cut short within.
	for _, link := range []linkType{linkEthernet, linkRawIP} {
		for n := range 80 {
			_, _, _ = parseRoCE(link, make([]byte, n))
		}
	}
}
