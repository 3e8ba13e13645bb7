package api

import (
	"errors"
	"net/http"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// The header of a reply carries the names of net types to another process.
func TestNetTypes(t *testing.T) {
	h := http.Header{}
	h.Add(netTypesHeader, "control=220 ip")
	h.Add(netTypesHeader, "controlnumber=221 number")
	if err := TakeNetTypes(h); err == nil {
		t.Error("one name is the beginning of the other")
	}
	h.Del(netTypesHeader)
	h.Add(netTypesHeader, "numbered=221 number")
	if err := TakeNetTypes(h); err != nil {
		t.Fatal(err)
	}
	if nid, err := lnet.ParseNID("7@numbered2"); err != nil || nid.Net() != lnet.MakeNet(221, 2) {
		t.Errorf("%v, %v", nid, err)
	}
	again := http.Header{}
	PutNetTypes(again)
	if err := TakeNetTypes(again); err != nil || len(again.Values(netTypesHeader)) < 2 {
		t.Errorf("%v: %v", again, err)
	}
	for _, text := range []string{"", "x", "x=1", "x=300 ip", "x=-1 ip", "x=a ip", "other=221 number", "lo=222 ip"} {
		if err := TakeNetTypes(http.Header{netTypesHeader: {text}}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if err := TakeNetTypes(http.Header{netTypesHeader: {"other=221 number"}}); !errors.Is(err, lnet.ErrTypeName) {
		t.Error(err)
	}
}
