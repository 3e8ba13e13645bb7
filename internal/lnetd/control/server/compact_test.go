package server

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// fill draws random values for everything in v; many are zero.
func fill(t *rapid.T, v reflect.Value) {
	if rapid.IntRange(0, 2).Draw(t, "zero") == 0 {
		return
	}
	if nid, ok := v.Addr().Interface().(*lnet.NID); ok {
		*nid = lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, rapid.Uint16().Draw(t, "net")), rapid.Uint32().Draw(t, "nid"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Tag.Get("json") != "-" {
				fill(t, v.FieldByIndex(f.Index))
			}
		}
	case reflect.Slice:
		n := rapid.IntRange(1, 3).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for k := range n {
			fill(t, v.Index(k))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint32")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint64"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	default:
		t.Fatalf("a %s is not drawn", v.Type())
	}
}

// TestCompactTellsAll checks that decoding a compact peer returns the peer that was encoded, up to
// the level of detail.
func TestCompactTellsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p api.Peer
		fill(t, reflect.ValueOf(&p).Elem())
		detail := rapid.IntRange(0, api.PeersDetail).Draw(t, "detail")
		b, err := newCompact(detail).append(nil, &p)
		if err != nil {
			t.Fatal(err)
		}
		var got api.Peer
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		for k := range p.NIs {
			ni := reflect.ValueOf(&p.NIs[k]).Elem()
			for _, f := range reflect.VisibleFields(ni.Type()) {
				if level, _ := strconv.Atoi(f.Tag.Get("detail")); level > detail {
					ni.FieldByIndex(f.Index).SetZero()
				}
			}
		}
		if diff := cmp.Diff(p, got, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); diff != "" {
			t.Fatalf("%s:\n%s", b, diff)
		}
	})
}

// TestCompactLeavesZerosOut checks that zero values are omitted.
func TestCompactLeavesZerosOut(t *testing.T) {
	p := api.Peer{Primary: lnet.LoopbackNID, NIs: []api.PeerNI{{NID: lnet.LoopbackNID, State: "NA", Refs: 1, Health: api.PeerHealthStats{Value: 1000}}}}
	for detail, want := range map[int]string{
		0: `{"primary_nid":"0@lo","nis":[{"nid":"0@lo","state":"NA"}]}`,
		1: `{"primary_nid":"0@lo","nis":[{"nid":"0@lo","state":"NA","refcount":1}]}`,
		4: `{"primary_nid":"0@lo","nis":[{"nid":"0@lo","state":"NA","refcount":1,"health_stats":{"health_value":1000}}]}`,
	} {
		if b, err := newCompact(detail).append(nil, &p); string(b) != want || err != nil {
			t.Errorf("detail %d: %s, %v", detail, b, err)
		}
	}
}
