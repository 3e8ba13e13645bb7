//go:build !linux

package transport

import (
	"syscall"
	"testing"
)

// Where the system cannot, a domain says so, whatever the Core says, and so does Confine.
//
// transport 3.13 (1), 3.16
func TestConfineElsewhere(t *testing.T) {
	d, err := NewDomain(t.Context(), newFakeCore())
	if err != nil {
		t.Fatal(err)
	}
	if d.Limits().Confine {
		t.Error("it says that it can")
	}
	tm, err := d.NewTM(func(*TMEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	is(t, tm.Confine(0), syscall.ENOSYS)
}
