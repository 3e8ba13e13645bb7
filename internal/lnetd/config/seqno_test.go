package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An error about a block has the number of that block, wherever in the block the number and the
// error are, also with several documents and with a section that occurs twice.
//
// lnetctl 11 (13)
func TestSeqNos(t *testing.T) {
	const text = `
net:
  - net: tcp
    interfaces: [{intf: eth0}]
    tunables: {peer_credits: 8, seq_no: 7}
  - {net: tcp1, seq_no: 8}
  - net: tcp2
routing: {enable: 1, seq_no: 0x10}
buffers: {tiny: 1, seq_no: -1}
global: {retry_count: 2, seq_no: one}
peers:
  - nids: {0: 10.0.0.1@tcp}
    seq_no: 9
---
net:
  - {net: tcp3}
  - net: tcp4
    seq_no: 10
`
	list := ParseSeqNos(t.Context(), []byte(text))
	none := int64(-1)
	for _, tt := range []struct {
		key  string
		line int
		want int64
	}{
		{"net[0]", 3, 7}, {"net[0].tunables.peer_credits", 5, 7}, {"net[1]", 6, 8}, {"net[2]", 7, none}, {"net[10]", 7, none},
		{"routing", 8, 16}, {"routing.enable", 8, 16}, {"buffers", 9, none}, {"global.retry_count", 10, none},
		{"peers[0].nids", 12, 9}, {"net[0]", 16, none}, {"net[1]", 17, 10}, {"net[1]: No interface matching 'eth9'", 17, 10},
		{"peers", 11, none}, {"route[0]", 20, none}, {"", 0, none},
	} {
		got, ok := list.Of(&Problem{Key: tt.key, Line: tt.line})
		if !ok {
			got = none
		}
		if got != tt.want {
			t.Errorf("%s in line %d: %d, want %d", tt.key, tt.line, got, tt.want)
		}
	}
	for _, text := range []string{"", "net: [{net: tcp}]", "net: [seq_no: {", "- seq_no: 1"} {
		if got := ParseSeqNos(t.Context(), []byte(text)); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Every block may have a number, which changes nothing.
//
// lnetctl 11 (13)
func TestSeqNosAreNoConfiguration(t *testing.T) {
	const with = `
net: [{net type: tcp, seq_no: 1, local NI(s): [{interfaces: {0: eth0}, seq_no: 2}], tunables: {seq_no: 3}}]
ip2nets: [{net-spec: tcp1, seq_no: 4}]
peer: [{primary nid: 10.0.0.2@tcp, seq_no: 5}]
peers: [{nids: [10.0.0.3@tcp], seq_no: 6}]
route: [{net: tcp9, gateway: 10.0.0.9@tcp, seq_no: 7}]
udsp: [{idx: 0, src: tcp, priority: 0, seq_no: 8}]
selection: [{type: net, net: tcp, priority: 0, seq_no: 9}]
routing: {enable: 1, seq_no: 10}
buffers: {tiny: 5, seq_no: 11}
global: {retry_count: 1, seq_no: 12}
numa: {range: 3, seq_no: 13}
`
	c := mustParse(t, with)
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %v", c.Warnings)
	}
	if diff := cmp.Diff([]any{1, 3, 5}, []any{c.Parameters.RetryCount, int(c.Parameters.NUMARange), c.Buffers.Tiny}); diff != "" {
		t.Error(diff)
	}
	for _, section := range []string{"ping", "discover"} {
		got, err := ParseRequests(t.Context(), "t.yaml", []byte(section+": {nids: [10.0.0.1@tcp], seq_no: 14}\n"))
		if err != nil || len(got) != 1 || got[0].SeqNo == nil || *got[0].SeqNo != 14 {
			t.Errorf("%s: %+v, %v", section, got, err)
		}
	}
}

// "detail" is the level of detail for a net, a peer or the routes. It changes nothing.
//
// lnetctl 7 (5)
func TestDetails(t *testing.T) {
	const word = "net: [{net: tcp1, interfaces: [{intf: eth0, detail: yes}]}]\n"
	odd, err := ParseDeletion(t.Context(), "t.yaml", []byte(word), nil)
	if err != nil || len(odd.Details) > 0 || len(odd.Warnings) != 1 || !strings.Contains(odd.Warnings[0].Error(), `"yes", which is not a number`) {
		t.Errorf("a word as the level: %v, %v, %v", err, odd.Details, odd.Warnings)
	}
	const text = `
net:
  - {net type: tcp, detail: 2}
  - {net: tcp1, interfaces: [{intf: eth0, detail: 1}]}
  - {net: tcp1, detail: 0}
  - {net: tcp2, detail: -1}
route: [{net: tcp9, gateway: 10.0.0.9@tcp, detail: 0}, {net: tcp8, gateway: 10.0.0.9@tcp, detail: 1}]
peer: [{primary nid: 10.0.0.2@tcp, detail: 3}]
peers: [{nids: [10.0.0.3@tcp, 10.0.0.4@tcp], detail: 4}]
`
	d, err := ParseDeletion(t.Context(), "t.yaml", []byte(text), nil)
	want := map[string]int64{"tcp": 2, "tcp1": 1, "route": 1, "10.0.0.2@tcp": 3, "10.0.0.3@tcp": 4}
	if diff := cmp.Diff(want, d.Details); diff != "" || err != nil || len(d.Warnings) > 0 {
		t.Errorf("%v, %v, %s", err, d.Warnings, diff)
	}
}
