package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

func nidsOf(t *testing.T, list ...string) []lnet.NID {
	t.Helper()
	var nids []lnet.NID
	for _, s := range list {
		nids = append(nids, nidOf(t, s))
	}
	return nids
}

// lnetctl 4.10 (6), 9.3, 16
func TestPeers(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Peer
	}{
		{"as lnetctl exports it", `
peer:
-     primary nid: 10.0.0.2@tcp
      Multi-Rail: true
      peer state: 273
      peer ni:
      -     nid: 10.0.0.2@tcp
            state: NA
            refcount: 1
      -     nid: 10.0.1.2@tcp1
            state: NA
`, []Peer{{Primary: nidOf(t, "10.0.0.2@tcp"), Others: nidsOf(t, "10.0.1.2@tcp1"), Where: "f:3: peer[0]"}}},
		{"not Multi-Rail, in an older spelling", "peer:\n  - primary nid: 10.0.0.2@tcp\n    Multi-Rail: False\n",
			[]Peer{{Primary: nidOf(t, "10.0.0.2@tcp"), SingleRail: true, Where: "f:2: peer[0]"}}},
		{"ranges", "peer:\n  - primary nid: 10.0.0.2@tcp\n    peer ni: [{nid: '10.0.0.[1-3]@tcp'}, {nid: '10.0.[0-1].2@tcp'}]\n",
			[]Peer{{Primary: nidOf(t, "10.0.0.2@tcp"), Others: nidsOf(t, "10.0.0.1@tcp", "10.0.0.3@tcp", "10.0.1.2@tcp"),
				Where: "f:2: peer[0]"}}},
		{"the node itself", "peer:\n  - primary nid: 10.0.0.1@tcp\n    peer ni: [{nid: 10.0.0.1@tcp}, {nid: 0@lo}]\n",
			[]Peer{{Primary: nidOf(t, "10.0.0.1@tcp"), Where: "f:2: peer[0]"}}},
		{"in parts", "peer:\n  - {primary nid: 1@gni, peer ni: [{nid: 2@gni}]}\n  - {primary nid: 1@gni, peer ni: [{nid: 3@gni}]}\n",
			[]Peer{
				{Primary: nidOf(t, "1@gni"), Others: nidsOf(t, "2@gni", "3@gni"), Where: "f:2: peer[0]"},
			}},
		{"lists", "peers:\n  - nids: {0: 1@gni, 1: 2@gni}\n  - nids: [3@gni]\n",
			[]Peer{
				{Primary: nidOf(t, "1@gni"), Others: nidsOf(t, "2@gni"), Listed: nidsOf(t, "1@gni", "2@gni"), Where: "f:2: peers[0]"},
				{Primary: nidOf(t, "3@gni"), Listed: nidsOf(t, "3@gni"), Where: "f:3: peers[1]"},
			}},
		{"lists beside their key, as the design prints them", "peers:\n- nids:\n  0: 1@gni\n  1: 2@gni\n- nids:\n  0: 3@gni\n",
			[]Peer{
				{Primary: nidOf(t, "1@gni"), Others: nidsOf(t, "2@gni"), Listed: nidsOf(t, "1@gni", "2@gni"), Where: "f:2: peers[0]"},
				{Primary: nidOf(t, "3@gni"), Listed: nidsOf(t, "3@gni"), Where: "f:5: peers[1]"},
			}},
		{"none", "peer:\npeers: []\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustParse(t, tt.text).Peers, alike); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lnetctl 9.3
func TestPeerErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"no primary NID", "peer:\n  - peer ni: []\n", []string{`f:2: peer[0]: the key "primary nid" is missing`}},
		{"primary NID is a range", "peer:\n  - primary nid: 1.1.1.[1-2]@tcp\n", []string{"f:2: peer[0].primary nid: "}},
		{"primary NID is 0@lo", "peer:\n  - primary nid: 0@lo\n", []string{"f:2: peer[0].primary nid: 0@lo is a NID of this node"}},
		{"bad NID", "peer:\n  - primary nid: 1@gni\n    peer ni:\n      - nid: 300.1.1.1@tcp\n",
			[]string{"f:4: peer[0].peer ni[0].nid: "}},
		{"asterisk", "peer:\n  - primary nid: 1@gni\n    peer ni: [{nid: '1.1.1.*@tcp'}]\n",
			[]string{"f:3: peer[0].peer ni[0].nid: "}},
		{"no NID", "peer:\n  - primary nid: 1@gni\n    peer ni: [{state: up}]\n",
			[]string{`f:3: peer[0].peer ni[0]: the key "nid" is missing`}},
		{"too many in a range", "peer:\n  - primary nid: 1.1.1.1@tcp\n    peer ni: [{nid: '1.1.1.[1-129]@tcp'}]\n",
			[]string{"f:3: peer[0].peer ni[0].nid: "}},
		{"too many in all", "peer:\n  - primary nid: 1.1.1.1@tcp\n    peer ni: [{nid: '1.1.1.[1-100]@tcp'}, {nid: '1.1.2.[1-100]@tcp'}]\n",
			[]string{"f:2: peer[0]: 200 NIDs: a peer can have at most 128"}},
		{"Multi-Rail is neither", "peer:\n  - primary nid: 1@gni\n    Multi-Rail: perhaps\n",
			[]string{`f:3: peer[0].Multi-Rail: "perhaps" is neither true nor false`}},
		{"two NIDs of a net", "peer:\n  - {primary nid: 1@gni, Multi-Rail: no, peer ni: [{nid: 2@gni}]}\n",
			[]string{"f:2: peer[0]: 2@gni: a peer that is not Multi-Rail can have only one NID per net"}},
		{"a NID of two peers", "peer:\n  - {primary nid: 1@gni, peer ni: [{nid: 2@gni}]}\n  - {primary nid: 3@gni, peer ni: [{nid: 2@gni}]}\n",
			[]string{"f:3: peer[1]: 2@gni belongs to the peer 1@gni already"}},
		{"list without NIDs", "peers:\n  - seq_no: 3\n", []string{`f:2: peers[0]: the key "nids" is missing`}},
		{"list of nothing", "peers:\n  - nids: []\n", []string{"f:2: peers[0].nids: contains no NID"}},
		{"list beside the key alone", "peers:\n  - nids:\n    seq_no: 1\n", []string{"f:2: peers[0].nids: contains no NID"}},
		{"list without its key", "peers:\n  - 0: 1@gni\n", []string{`f:2: peers[0]: the key "nids" is missing`}},
		{"list below the key and beside it", "peers:\n  - nids: {0: 1@gni}\n    1: 2@gni\n",
			[]string{"f:2: peers[0].nids: NIDs are given both below 'nids' and, as '1', next to it"}},
		{"an empty list, and one beside the key", "peers:\n  - nids: []\n    0: 2@gni\n",
			[]string{"f:2: peers[0].nids: NIDs are given both below 'nids' and, as '0', next to it"}},
		{"a number twice", "peers:\n  - nids:\n    0: 1@gni\n    0: 2@gni\n", []string{"f:4: peers[0].0: occurs twice"}},
		{"no NID beside the key", "peers:\n  - nids:\n    0: 1@gni\n    1: x\n", []string{"f:4: peers[0].1: "}},
		{"no list", "peer: 1\n", []string{`f:1: peer: "1" was found, but a list was expected`}},
		{"no mapping", "peer: [1]\n", []string{`f:1: peer[0]: "1" was found, but keys were expected`}},
	})
}

// errorTest is a text and the beginnings of the errors that it gives.
type errorTest struct {
	name, text string
	want       []string
}

func testErrors(t *testing.T, tests []errorTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.text), testDrivers)
			if err == nil {
				t.Fatal("no error")
			}
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("%T", err)
			}
			lines := plain(problems)
			if len(lines) != len(tt.want) {
				t.Fatalf("%d errors, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("error %q, want %q", lines[i], want)
				}
			}
		})
	}
}

// plain returns problems as "file:line: key: text", without columns and remedies.
func plain(p Problems) []string {
	var lines []string
	for _, one := range p {
		one := *one
		one.Column, one.Remedy = 0, ""
		lines = append(lines, one.Error())
	}
	return lines
}

// A NID belongs to the first of several peers that list it. A peer that is rejected for that
// reason does not count as an earlier entry.
func TestNIDOfSeveralPeers(t *testing.T) {
	const text = `peer:
  - {primary nid: 1@gni, peer ni: [{nid: 9@gni}]}
  - {primary nid: 2@gni, peer ni: [{nid: 9@gni}]}
  - {primary nid: 2@gni, peer ni: [{nid: 8@gni}]}
  - {primary nid: 3@gni, peer ni: [{nid: 9@gni}, {nid: 8@gni}]}
`
	c, err := Parse("f", []byte(text), nil)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("%v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Text)
	}
	want := []string{
		"9@gni belongs to the peer 1@gni already", "9@gni belongs to the peer 1@gni already", "8@gni belongs to the peer 2@gni already",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%v", c.Warnings)
	}
}
