package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peerTexts returns peers as text, each with its primary NID first.
func peerTexts(peers []Peer) (out []string) {
	for k := range peers {
		p := &peers[k]
		text := fmt.Sprint(p.nids())
		if p.Locked {
			text += " locked"
		}
		if p.SingleRail {
			text += " single"
		}
		out = append(out, text)
	}
	return out
}

func warningTexts(list Problems) (out []string) {
	for _, w := range list {
		out = append(out, w.Text)
	}
	return out
}

// An entry of "peers" lists all NIDs of a peer, which any of them identifies. The documents are
// applied one after another, as in the design's examples. Applying the same document again
// changes nothing.
//
// lnetctl 11 (3)
func TestPeerListsRefresh(t *testing.T) {
	tests := []struct {
		name      string
		documents []string
		want      []string
		warnings  []string
	}{
		{"the design's example", []string{
			"peers:\n- nids:\n    0: 10.2.2.3@o2ib0\n    1: 10.4.4.4@o2ib1\n",
			"peers:\n- nids:\n    0: 10.2.2.3@o2ib0\n    1: 10.5.5.5@o2ib2\n",
		}, []string{"[10.2.2.3@o2ib 10.5.5.5@o2ib2]"}, nil},
		{"found by a further NID", []string{"peers: [{nids: [1@gni, 2@gni]}]", "peers: [{nids: [2@gni, 3@gni, 1@gni]}]"}, []string{"[1@gni 2@gni 3@gni]"}, nil},
		{"without its primary NID", []string{"peers: [{nids: [1@gni, 2@gni]}]", "peers: [{nids: [3@gni, 2@gni]}]"}, []string{"[3@gni 2@gni]"}, nil},
		{"a lock goes with its NID", []string{
			"peer: [{primary nid: 1@gni, peer ni: [{nid: 2@gni}]}]\nlnetd: {lock_prim: [1@gni]}\n", "peers: [{nids: [2@gni]}]",
		}, []string{"[2@gni]"}, []string{"the locked primary NID 1@gni is not in the list: the peer loses the NID and the lock"}},
		{"a lock for the first NID alone", []string{
			"peers: [{nids: [1@gni, 2@gni]}]", "peers: [{nids: [2@gni, 1@gni]}]\nlnetd: {lock_prim: [2@gni]}\n",
		}, []string{"[1@gni 2@gni]"}, nil},
		{"a lock stays", []string{
			"peer: [{primary nid: 1@gni, peer ni: [{nid: 2@gni}]}]\nlnetd: {lock_prim: [1@gni]}\n", "peers: [{nids: [3@gni, 1@gni]}]",
		}, []string{"[1@gni 3@gni] locked"}, nil},
		{"a NID of another peer", []string{"peers: [{nids: [1@gni]}, {nids: [2@gni, 3@gni]}]", "peers: [{nids: [1@gni, 3@gni, 4@gni]}]"},
			[]string{"[1@gni 4@gni]", "[2@gni 3@gni]"}, []string{"NID 1, 3@gni, already belongs to the peer 2@gni and is ignored"}},
		{"a NID goes from one peer to another", []string{"peers: [{nids: [1@gni, 3@gni]}, {nids: [2@gni]}]", "peers: [{nids: [2@gni, 3@gni]}, {nids: [1@gni]}]"},
			[]string{"[1@gni]", "[2@gni 3@gni]"}, nil},
		{"a peer comes apart", []string{"peers: [{nids: [1@gni, 2@gni]}]", "peers: [{nids: [2@gni]}, {nids: [1@gni]}]"}, []string{"[2@gni]", "[1@gni]"}, nil},
		{"peers become one", []string{"peers: [{nids: [1@gni]}, {nids: [2@gni]}]", "peers: [{nids: [3@gni, 1@gni, 2@gni]}]"},
			[]string{"[1@gni 3@gni]", "[2@gni]"}, []string{"NID 2, 2@gni, already belongs to the peer 2@gni and is ignored"}},
		{"all NIDs are another's", []string{"peers: [{nids: [1@gni, 2@gni]}]", "peers: [{nids: [1@gni]}, {nids: [2@gni]}]"}, []string{"[1@gni]", "[2@gni]"}, nil},
		{"a peer of one rail", []string{"peer: [{primary nid: 1@gni, Multi-Rail: false}]", "peers: [{nids: [1@gni, 1.1.1.1@tcp]}]"},
			[]string{"[1@gni 1.1.1.1@tcp] single"}, nil},
		{"two NIDs on a net make it Multi-Rail", []string{"peer: [{primary nid: 1@gni, Multi-Rail: false}]", "peers: [{nids: [1@gni, 2@gni]}]"},
			[]string{"[1@gni 2@gni]"}, nil},
		{"twice in one document", []string{"peers: [{nids: [1@gni, 2@gni]}, {nids: [3@gni, 2@gni]}]"}, []string{"[3@gni 2@gni]"},
			[]string{"the peer 1@gni occurs twice: it gets the NIDs of the last entry"}},
		{"entries of both kinds", []string{"peer: [{primary nid: 1@gni, peer ni: [{nid: 2@gni}]}]\npeers: [{nids: [3@gni, 1@gni]}]\n"}, []string{"[1@gni 3@gni]"},
			[]string{"the peer 1@gni occurs twice: it gets the NIDs of the last entry"}},
		{"NIDs of two in one document", []string{"peers: [{nids: [1@gni]}, {nids: [2@gni]}, {nids: [1@gni, 2@gni]}]"}, []string{"[1@gni]", "[2@gni]"},
			[]string{"the peer 1@gni occurs twice: it gets the NIDs of the last entry", "NID 1, 2@gni, already belongs to the peer 2@gni and is ignored"}},
		{"ranges", []string{"peers: [{nids: ['1.1.1.[1-3]@tcp']}]", "peers: [{nids: ['1.1.1.[2-4]@tcp']}]"}, []string{"[1.1.1.2@tcp 1.1.1.3@tcp 1.1.1.4@tcp]"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var have State
			var warnings []string
			for _, text := range tt.documents {
				have, warnings = added(t, &have, text)
				have, _ = added(t, &have, text)
			}
			if diff := cmp.Diff(tt.want, peerTexts(have.Peers)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A NID that routes use as a gateway cannot be removed in any way. The error has the line, and
// occurs only for NIDs that would really be removed.
func TestGatewaysStay(t *testing.T) {
	const have = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n" +
		"route: [{net: o2ib, gateway: 10.0.0.1@tcp}]\npeers: [{nids: [10.0.0.1@tcp, 10.0.0.2@tcp]}, {nids: [10.0.0.3@tcp, 10.0.0.4@tcp]}]\n"
	const busy = "d:1: %s: routes use the peer 10.0.0.1@tcp: failed to del primary peer; "
	const first, both = "delete the routes first, or keep the NID in the list", "delete the routes in the same document"
	for _, tt := range []struct {
		name, document string
		del            bool
		at, remedy     string
	}{
		{"list without it", "peers: [{nids: [10.0.0.2@tcp, 10.0.0.5@tcp]}]", false, "peers[0]", first},
		{"list with it", "peers: [{nids: [10.0.0.5@tcp, 10.0.0.1@tcp]}]", false, "", ""},
		{"lists that exchange it", "peers: [{nids: [10.0.0.2@tcp]}, {nids: [10.0.0.3@tcp, 10.0.0.1@tcp]}]", false, "", ""},
		{"deletion of the list", "peers: [{nids: [10.0.0.2@tcp, 10.0.0.1@tcp]}]", true, "peers[0]", both},
		{"deletion of the peer", "peer: [{primary nid: 10.0.0.3@tcp}, {primary nid: 10.0.0.1@tcp}]", true, "peer[1]", both},
		{"deletion of a further NID", "peers: [{nids: [10.0.0.2@tcp]}]", true, "", ""},
		{"deletion of another peer's NIDs", "peers: [{nids: [10.0.0.4@tcp, 10.0.0.1@tcp]}]", true, "", ""},
		{"deletion with the route", "{route: [{net: o2ib, gateway: 10.0.0.1@tcp}], peers: [{nids: [10.0.0.1@tcp]}]}", true, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has := mustParse(t, have)
			var err error
			if tt.del {
				d, bad := ParseDeletion(t.Context(), "d", []byte(tt.document), testDrivers)
				if bad != nil {
					t.Fatal(bad)
				}
				_, _, err = Delete(&has.State, &d)
			} else {
				c, bad := ParseOver(t.Context(), "d", []byte(tt.document), testDrivers, &has.State)
				if bad != nil {
					t.Fatal(bad)
				}
				_, _, err = Add(&has.State, "d", &c, testDrivers)
			}
			switch {
			case tt.at == "" && err != nil:
				t.Error(err)
			case tt.at != "" && (err == nil || err.Error() != fmt.Sprintf(busy, tt.at)+tt.remedy):
				t.Errorf("%v, want %s", err, fmt.Sprintf(busy, tt.at)+tt.remedy)
			}
		})
	}
}

// added returns the state of a node after a document was added, with the messages.
func added(t *testing.T, have *State, text string) (State, []string) {
	t.Helper()
	c, err := Parse("d", []byte(text), testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	want, warnings, err := Add(have, "d", &c, testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	return want, append(warningTexts(c.Warnings), warningTexts(warnings)...)
}

// Deleting an entry of "peers" removes only its NIDs, from the peer that has one of them.
//
// lnetctl 11 (4)
func TestPeerListsAreDeleted(t *testing.T) {
	const have = "peers: [{nids: [1@gni, 2@gni, 3@gni]}, {nids: [4@gni, 5@gni]}, {nids: [6@gni]}]"
	tests := []struct {
		name, text string
		want       []string
		warnings   []string
	}{
		{"a further NID", "peers: [{nids: {0: 2@gni}}]", []string{"[1@gni 3@gni]", "[4@gni 5@gni]", "[6@gni]"}, nil},
		{"the primary NID", "peers: [{nids: [1@gni]}]", []string{"[2@gni 3@gni]", "[4@gni 5@gni]", "[6@gni]"}, nil},
		{"all, in another order", "peers: [{nids: [5@gni, 4@gni]}]", []string{"[1@gni 2@gni 3@gni]", "[6@gni]"}, nil},
		{"of several peers", "peers: [{nids: [3@gni, 2@gni]}, {nids: [6@gni]}]", []string{"[1@gni]", "[4@gni 5@gni]"}, nil},
		{"a NID that is not there", "peers: [{nids: [7@gni, 2@gni]}]", []string{"[1@gni 3@gni]", "[4@gni 5@gni]", "[6@gni]"},
			[]string{"NID 0, 7@gni, does not belong to any peer; nothing is deleted"}},
		{"a NID of another peer", "peers: [{nids: [2@gni, 4@gni]}]", []string{"[1@gni 3@gni]", "[4@gni 5@gni]", "[6@gni]"},
			[]string{"NID 1, 4@gni, belongs to another peer, 4@gni, and is not deleted"}},
		{"twice", "peers: [{nids: [6@gni]}, {nids: [6@gni]}]", []string{"[1@gni 2@gni 3@gni]", "[4@gni 5@gni]"},
			[]string{"NID 0, 6@gni, does not belong to any peer; nothing is deleted"}},
		{"one after the other", "peers: [{nids: [4@gni]}, {nids: [5@gni]}]", []string{"[1@gni 2@gni 3@gni]", "[6@gni]"}, nil},
		{"lnetctl's form, with a further NID", "peer: [{primary nid: 2@gni}]", []string{"[1@gni 2@gni 3@gni]", "[4@gni 5@gni]", "[6@gni]"},
			[]string{"2@gni is not the primary NID of its peer, which is 1@gni; nothing is deleted"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, have)
			d, err := ParseDeletion(t.Context(), "d", []byte(tt.text), testDrivers)
			if err != nil {
				t.Fatal(err)
			}
			left, warnings, err := Delete(&c.State, &d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, peerTexts(left.Peers)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, warningTexts(warnings)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
