//go:build !linux

package transport

import (
	"syscall"
	"testing"
)

// If the system does not support Confine, the limits of a domain and Confine report that, regardless of the
// Core.
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
