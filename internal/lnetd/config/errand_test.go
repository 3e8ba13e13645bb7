package config

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// import --exec executes "ping" and "discover" and ignores other sections. Other documents must
// not contain these two.
//
// sanity-lnet 5 (350)
// lnetctl 7 (6)
func TestErrands(t *testing.T) {
	got, err := ParseRequests(t.Context(), "f", []byte(`
ping: {nids: {0: 10.0.0.1@tcp, 1: "10.0.0.[2-3]@tcp1"}, timeout: 1500, source: 10.0.0.9@tcp}
frob: 1
net: 7
discover:
    nids: [10.0.0.1@tcp, host@tcp]
    force: true
---
discover: {nids: {0: 0@lo}}
ping:
    nids:
        - 0@lo
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{
		{NIDs: []string{"10.0.0.1@tcp", "10.0.0.[2-3]@tcp1"}, Timeout: 1500 * time.Millisecond, Source: "10.0.0.9@tcp"},
		{Discover: true, Force: true, NIDs: []string{"10.0.0.1@tcp", "host@tcp"}},
		{Discover: true, NIDs: []string{"0@lo"}},
		{NIDs: []string{"0@lo"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := ParseRequests(t.Context(), "f", []byte("net: []\n")); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	testErrors(t, []errorTest{{"in an ordinary document", "discover: {nids: [1@gni]}\n", []string{"f:1: discover: invalid key 'discover'"}}})
}

// lnetctl 7 (6)
func TestErrandsThatAreRefused(t *testing.T) {
	for text, want := range map[string][]string{
		"ping:\n":                            {"f:1: ping: no value was found, but keys were expected"},
		"ping: {timeout: 5}\n":               {`f:1: ping: the key "nids" is missing`},
		"ping: {nid: 1@gni}\n":               {"f:1: ping.nid: invalid key 'nid'"},
		"ping: {nids: []}\n":                 {"f:1: ping.nids: contains no NID"},
		"ping: {nids: 1@gni}\n":              {`f:1: ping.nids: "1@gni" was found, but a list was expected`},
		"ping: {nids: [1@gni], timeout: 0}":  {"f:1: ping.timeout: 0 is not in 1 to 2147483647"},
		"ping: {nids: [1@gni], source: 1@x}": {`f:1: ping.source: NID "1@x": unknown network type`},
		"discover: {nids: [1@gni, ]":         {"f:1: the bracket { is not closed"},
	} {
		_, err := ParseRequests(t.Context(), "f", []byte(text))
		var problems Problems
		if !errors.As(err, &problems) {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, plain(problems)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
