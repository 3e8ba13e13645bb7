package tmhost

import (
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// Given the NIDs of an lnetd, then a host uses the configured one, or one on the net of its peer, or the
// first that is not loopback.
func TestChoose(t *testing.T) {
	var nids []lnet.NID
	for _, s := range []string{Loopback, "10.0.0.1@tcp", "10.1.0.1@tcp1"} {
		nid, err := lnet.ParseNID(s)
		if err != nil {
			t.Fatal(err)
		}
		nids = append(nids, nid)
	}
	for _, c := range []struct {
		nid, near, want string
		err             error
	}{
		{"10.1.0.1@tcp1", "10.0.0.9@tcp", "10.1.0.1@tcp1", nil},
		{Loopback, "", Loopback, nil},
		{"", "10.1.0.9@tcp1", "10.1.0.1@tcp1", nil},
		{"", "10.2.0.9@tcp2", "10.0.0.1@tcp", nil},
		{"", Loopback, Loopback, nil},
		{"", "", "10.0.0.1@tcp", nil},
		{"10.0.0.2@tcp", "", "10.0.0.2@tcp", syscall.ENOENT},
	} {
		got, err := chooseNID(nids, Config{NID: c.nid, Near: c.near})
		if got.String() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if _, err := chooseNID(nids, Config{NID: "x"}); err == nil {
		t.Error("what is no NID is one")
	}
}
