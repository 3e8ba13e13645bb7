package lnet

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

// TestNameType names a type and reads and writes nets and NIDs of it, with both kinds of addresses. Names remain
// until the process ends, so no other test may use these types.
func TestNameType(t *testing.T) {
	byIP, byNumber := NamedType{201, "fabric", true}, NamedType{202, "ring", false}
	before := NIDFromIP(MakeNet(201, 3), netip.MustParseAddr("10.0.0.1")).String()
	if before != "a000001@<201:3>" {
		t.Errorf("without a name: %q", before)
	}
	for _, n := range []NamedType{byIP, byNumber, byIP} {
		if err := NameType(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"10.0.0.1@fabric", "10.0.0.1@fabric3", "fd00::1@fabric", "7@ring", "7@ring65535", "1:2:3:4@ring1", "10.0.0.1@tcp",
	} {
		nid, err := ParseNID(text)
		if err != nil || nid.String() != text {
			t.Errorf("ParseNID(%q) = %v, %v", text, nid, err)
		}
	}
	if nid, err := ParseNID(before); err != nil || nid.String() != "10.0.0.1@fabric3" {
		t.Errorf("ParseNID(%q) = %v, %v", before, nid, err)
	}
	if nids, err := ExpandNIDs("10.0.0.[1-2]@fabric1", 10); err != nil || len(nids) != 2 || nids[1].String() != "10.0.0.2@fabric1" {
		t.Errorf("ExpandNIDs: %v, %v", nids, err)
	}
	if p, err := ParsePattern("10.0.0.*@fabric"); err != nil || p.String() != "10.0.0.[0-255]@fabric" {
		t.Errorf("ParsePattern: %v, %v", p, err)
	}
	for _, text := range []string{"none", "none*", "10.0.0.*@none"} {
		if _, err := ParsePattern(text); !errors.Is(err, ErrUnknownType) {
			t.Errorf("ParsePattern(%q): %v", text, err)
		}
	}
	if typ, err := ParseNetType("ring"); err != nil || typ != 202 || typ.IPAddressed() {
		t.Errorf("ParseNetType: %v, %v", typ, err)
	}
	if !slices.Contains(AddedTypes(), byIP) || slices.Contains(AddedTypes(), NamedType{TypeTCP, "tcp", true}) {
		t.Errorf("AddedTypes: %v", AddedTypes())
	}
}

func TestNameTypeRefusesNames(t *testing.T) {
	if err := NameType(NamedType{203, "taken", true}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []NamedType{
		{0, "zero", true}, {255, "any", true}, {TypeTOFU, "tofu", false}, {204, "", true}, {204, "a-b", true}, {204, "Upper", true},
		{204, "ends1", true}, {204, "1begins", true}, {204, "longerthan15chars", true}, {204, "ümlaut", true},
		{TypeTCP, "other", true}, {TypeTCP, "tcp", false}, {204, "tcp", true}, {204, "t", true}, {204, "tcpx", true}, {204, "loop", true},
		{203, "again", true}, {203, "taken", false}, {204, "taken", true}, {204, "take", true}, {204, "takens", true},
	} {
		if err := NameType(n); !errors.Is(err, ErrTypeName) {
			t.Errorf("NameType(%v) = %v", n, err)
		}
	}
	if err := NameType(NamedType{TypeTCP, "tcp", true}); err != nil {
		t.Errorf("the name that LNet gives: %v", err)
	}
}

// TestNameTypeConcurrently names one type in many goroutines while others read and write NIDs. One name wins.
func TestNameTypeConcurrently(t *testing.T) {
	var done sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for _, name := range []string{"alpha", "beta", "gamma", "delta"} {
		done.Go(func() {
			if NameType(NamedType{205, name, false}) == nil {
				mu.Lock()
				defer mu.Unlock()
				won++
			}
		})
		done.Go(func() {
			if nid, err := ParseNID("10.0.0.1@tcp"); err != nil || nid.String() != "10.0.0.1@tcp" {
				t.Errorf("%v, %v", nid, err)
			}
		})
	}
	if done.Wait(); won != 1 {
		t.Errorf("%d names won", won)
	}
}
