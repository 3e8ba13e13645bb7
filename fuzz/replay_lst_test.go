package fuzz

import (
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/console"
)

// The same recordings of selftest, played with what drives nodes and is driven:
// TestReplay says itself what selftest sends, here our agent and our console do.
// As a server or a client our node answers the recorded console, and serves or
// asks the recorded peer; as a console, and as console and client in one, it
// carries out the commands that were given to the recorded one. It must then do
// what that did: the same requests, in the same order on each connection, with
// the same IDs, the same bulk, the same counters, byte for byte, but for what a
// role names.
//
// selftest 1 messages, 1 (4), 2.3, 3 client (1), 3 server (1), 3 counters, 7.5 (2)
func TestReplaySelftest(t *testing.T) {
	playAll(t, agentRoles, func(p *replay) {
		p.startAgent()
		p.run()
		p.probe()
		p.compareState()
		p.end()
	})
}

// The nodes of the recordings, as peers of one another. A console talks to its
// own node as to others.
const (
	knowsA = "10.77.0.11@tcp multi-rail true: 10.77.0.11@tcp"
	knowsB = "10.77.0.12@tcp multi-rail true: 10.77.0.12@tcp"
	knowsC = "10.77.0.13@tcp multi-rail true: 10.77.0.13@tcp"
)

var agentRoles = slices.Concat(
	[]*role{
		{
			file: "d-lst-ping", name: "client and later console", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
			acts: []adminAction{
				{3 * time.Second, awaitIdle},
				{4500 * time.Millisecond, lst(lstSession{name: "t311", loop: 3, concurrency: 1, ping: true})},
			},
			peers:   []string{knowsA, knowsB, knowsC},
			differs: []allowance{runningTimes, pingTimes},
			chance:  []allowance{messagesHeld, idsOfUnits},
		},
		{
			file: "d-lst-ping", name: "server", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
			peers:   []string{knowsA, knowsC},
			differs: []allowance{runningTimes},
			chance:  []allowance{messagesHeld},
		},
		{
			file: "d-lst-ping", name: "console", devices: ethC, nis: []ni{{"10.77.0.13@tcp", "eth0"}},
			acts:  []adminAction{{0, lst(lstSession{name: "t311", loop: 5, concurrency: 2, ping: true})}},
			peers: []string{knowsA, knowsB},
		},
	},
	brwRoles("e-lst-brw-write-4k", brwSessions{
		{"t310", 3, console.BRW{Write: true, Size: 4096, Check: "full"}},
		{"t322", 3, console.BRW{Write: true, Size: 4096, Check: "simple"}},
	}, []allowance{simplePayload}, nil),
	brwRoles("e-lst-brw-write-1m", brwSessions{
		{"t311", 2, console.BRW{Write: true, Size: 1 << 20, Check: "full"}},
	}, []allowance{zeroCopyRequests}, nil),
	brwRoles("e4-min-bulk-threshold", brwSessions{
		{"t311", 1, console.BRW{Write: true, Size: 512, Check: "full"}},
		{"t323", 1, console.BRW{Write: true, Size: 920, Check: "full"}},
		{"t335", 1, console.BRW{Write: true, Size: 928, Check: "full"}},
		{"t347", 1, console.BRW{Write: true, Size: 936, Check: "full"}},
		{"t359", 1, console.BRW{Write: true, Size: 1024, Check: "full"}},
	}, nil, nil),
	brwRoles("f-lst-brw-read-4k", brwSessions{
		{"t310", 3, console.BRW{Size: 4096, Check: "full"}},
		{"t322", 3, console.BRW{Size: 4096, Check: "simple"}},
	}, nil, nil),
	brwRoles("f-lst-brw-read-1m", brwSessions{
		{"t310", 2, console.BRW{Size: 1 << 20, Check: "full"}},
	}, nil, []allowance{zeroCopyRequests}),
)

// brwSessions are the sessions of a recording, each with one test of bulk.
type brwSessions []struct {
	name string
	loop int32
	brw  console.BRW
}

// brwRoles are the two of a recording in which console and client are one node.
func brwRoles(file string, sessions brwSessions, client, server []allowance) []*role {
	var list []lstSession
	for _, s := range sessions {
		list = append(list, lstSession{name: s.name, loop: s.loop, concurrency: 1, brw: s.brw})
	}
	return []*role{
		{
			file: file, name: "console and client", devices: ethA, nis: []ni{{"10.77.0.11@tcp", "eth0"}},
			acts:    []adminAction{{0, lst(list...)}},
			peers:   []string{knowsA, knowsB},
			differs: client,
		},
		{
			file: file, name: "server", devices: ethB, nis: []ni{{"10.77.0.12@tcp", "eth0"}},
			peers:   []string{knowsA},
			differs: append([]allowance{runningTimes}, server...),
			chance:  []allowance{messagesHeld},
		},
	}
}
