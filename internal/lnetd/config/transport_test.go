package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/lnet"
)

// transport 9.8
func TestTransportSection(t *testing.T) {
	c := mustParse(t, `
lnetd:
    transport:
        enabled: false
        socket: /x/lnetd.sock
        group: root
        farewell: 7
        poll_time: 50
        rules:
            - name: servers
              users: [root, 1000]
              groups: [0, 2000]
              nids: ["10.0.0.[1-2]@tcp"]
              portals: 5-9
              tm_ids: 7
              each: {tms: 1, buffers: 2, areas: 3, ring_entries: 4, memory: 5, requests: 6}
              user: {connections: 7, tms: 8, buffers: 9, areas: 10, ring_entries: 11, memory: 12}
            - name: others
`)
	nid := func(s string) lnet.NID {
		n, err := lnet.ParseNID(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := Transport{
		Socket: "/x/lnetd.sock", Farewell: 7 * time.Second, PollTime: 50 * time.Microsecond,
		Rules: []clients.Rule{{
			Name: "servers", UIDs: []uint32{0, 1000}, GIDs: []uint32{0, 2000},
			NIDs: []lnet.NID{nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp")}, Portals: clients.Span{First: 5, Last: 9}, TMIDs: clients.Span{First: 7, Last: 7},
			Connection: clients.Quotas{TMs: 1, Buffers: 2, Areas: 3, RingEntries: 4, Bytes: 5 << 20, Requests: 6},
			User:       clients.Quotas{Connections: 7, TMs: 8, Buffers: 9, Areas: 10, RingEntries: 11, Bytes: 12 << 20},
		}, {Name: "others"}},
	}
	same := cmp.Comparer(func(a, b lnet.NID) bool { return a == b })
	if diff := cmp.Diff(want, c.Transport, same, cmpopts.IgnoreUnexported(clients.Rule{})); diff != "" {
		t.Error(diff)
	}
	if got := c.Transport.Clients(); len(got.Rules) != 2 || got.Farewell != 7*time.Second || got.PollTime != 50*time.Microsecond {
		t.Errorf("%+v", got)
	}
}

// Clients are hosted unless the configuration disables that.
func TestTransportIsOnByDefault(t *testing.T) {
	for _, text := range []string{"", "lnetd: {transport: }\n", "lnetd: {transport: {farewell: 0}}\n", "lnetd: {transport: {rules: }}\n"} {
		if c := mustParse(t, text); !c.Transport.Enabled || c.Transport.Group >= 0 || len(c.Transport.Rules) > 0 {
			t.Errorf("%q: %+v", text, c.Transport)
		}
	}
}

func TestTransportErrors(t *testing.T) {
	const rules = "lnetd:\n  transport:\n    rules:\n      - "
	const at = "f:4: lnetd.transport.rules[0]"
	testErrors(t, []errorTest{
		{"key unknown", "lnetd:\n    transport:\n        enable: 1\n", []string{"f:3: lnetd.transport.enable: invalid key 'enable'"}},
		{"a word", "lnetd: {transport: on}\n", []string{"f:1: lnetd.transport: \"on\" was found, but keys were expected"}},
		{"no group", "lnetd: {transport: {group: no such}}\n", []string{`f:1: lnetd.transport.group: "no such" is neither a group of this host nor a number`}},
		{"farewell", "lnetd: {transport: {farewell: 61}}\n", []string{"f:1: lnetd.transport.farewell: 61 is not in 0 to 60"}},
		{"poll time", "lnetd: {transport: {poll_time: -1}}\n", []string{"f:1: lnetd.transport.poll_time: -1 is not in 0 to 1000000"}},
		{"rules are no list", "lnetd: {transport: {rules: {a: 1}}}\n", []string{"f:1: lnetd.transport.rules: a mapping was found, but a list was expected"}},
		{"rule without name", rules + "users: [0]\n", []string{at + `: the key "name" is missing`}},
		{"rule with an empty name", rules + "name: \"\"\n", []string{at + `.name: "" is not a word of 1 to 63 letters`}},
		{"rule with two words", rules + "name: a b\n", []string{at + `.name: "a b" is not a word of 1 to 63 letters`}},
		{"rule twice", rules + "name: a\n      - name: a\n", []string{`f:5: lnetd.transport.rules[1]: the rule "a" already exists`}},
		{"key of a rule", rules + "{name: a, uid: 1}\n", []string{at + ".uid: invalid key 'uid'"}},
		{"no user", rules + "{name: a, users: [no such]}\n", []string{at + `.users[0]: "no such" is neither a user of this host nor a number`}},
		{"the number of none", rules + "{name: a, users: [4294967295]}\n", []string{at + `.users[0]: "4294967295" is neither a user of this host nor a number`}},
		{"no NID", rules + "{name: a, nids: [x]}\n", []string{at + ".nids[0]: "}},
		{"reserved portal", rules + "{name: a, portals: 0-3}\n", []string{at + ".portals: 0-3 is not within 1 to 63"}},
		{"portals the wrong way round", rules + "{name: a, portals: 5-3}\n", []string{at + ".portals: 5-3 is not within 1 to 63"}},
		{"number of a TM", rules + "{name: a, tm_ids: many}\n", []string{at + `.tm_ids: "many" is not a number or FIRST-LAST`}},
		{"buffers", rules + "{name: a, each: {buffers: 1048577}}\n", []string{at + ".each.buffers: 1048577 is not in 1 to 1048576"}},
		{"no quota", rules + "{name: a, each: {tms: 0}}\n", []string{at + ".each.tms: 0 is not in 1 to 16777216"}},
		{"quota of users", rules + "{name: a, each: {connections: 2}}\n", []string{at + ".each.connections: invalid key 'connections'"}},
		{"quota of connections", rules + "{name: a, user: {requests: 2}}\n", []string{at + ".user.requests: invalid key 'requests'"}},
	})
}
