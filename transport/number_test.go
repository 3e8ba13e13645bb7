package transport

import (
	"errors"
	"slices"
	"syscall"
	"testing"
)

// A number is chosen again after all others. Numbers below the range are chosen only if the whole range is
// in use.
//
// transport 6.3 (2)
func TestTMIDs(t *testing.T) {
	c := TMIDs{First: 10, Last: 12, Floor: 8}
	used := map[uint16]bool{}
	choose := func() uint16 {
		id, err := c.Choose(func(id uint16) (bool, error) { return !used[id], nil })
		if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Error(err)
		}
		used[id] = id != 0
		return id
	}
	var got []uint16
	got = append(got, choose(), choose())
	used[12] = false
	got = append(got, choose(), choose(), choose(), choose(), choose())
	used[11] = false
	got = append(got, choose())
	if want := []uint16{12, 11, 10, 12, 9, 8, 0, 11}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
	gone := errors.New("gone")
	if _, err := c.Choose(func(uint16) (bool, error) { return false, gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
