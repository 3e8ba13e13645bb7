package memory

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Reading or writing missing pages under Guard returns a Fault with the address, which
// matches EFAULT. Pages that exist cause no Fault.
//
// transport 9.9 (8)
func TestFault(t *testing.T) {
	page := os.Getpagesize()
	b, cut := testenv.Mapped(t, 3*page)
	v := Vector{Segments: []Segment{{Bytes: b[:page]}, {Bytes: b[page:]}}, Offset: 5, Length: 3*page - 5}
	if fault := v.Check(); fault != nil {
		t.Fatal(fault)
	}
	cut(2 * page)
	lost := uintptr(unsafe.Pointer(&b[2*page]))
	sound := Vector{Segments: v.Segments, Length: 2 * page}
	other := Of(make([]byte, 3*page))
	for name, f := range map[string]func() *Fault{
		"Check": v.Check,
		"From":  func() *Fault { return Guard(func() { other.CopyVector(v) }) },
		"To":    func() *Fault { return Guard(func() { v.CopyVector(other) }) },
	} {
		fault := f()
		if fault == nil {
			t.Errorf("%s: no fault", name)
			continue
		}
		if fault.Address < lost || fault.Address >= lost+uintptr(page) || !fault.In(v) || fault.In(sound) || fault.In(other) {
			t.Errorf("%s: %v, and what is lost is at %#x", name, fault, lost)
		}
		if !errors.Is(fault, syscall.EFAULT) {
			t.Errorf("%s: %v is no EFAULT", name, fault)
		}
	}
	if fault := sound.Check(); fault != nil {
		t.Error(fault)
	}
	if fault := (Vector{}).Check(); fault != nil {
		t.Error(fault)
	}
}

// Guard passes other panics on, and does not allocate.
func TestGuard(t *testing.T) {
	var mine *[1]Segment
	for name, f := range map[string]func(){
		"mine": func() { panic("mine") },
		"nil":  func() { mine[0].Bytes[0] = 1 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it does not come through", name)
				}
			}()
			_ = Guard(f)
		}()
	}
	a, b := make([]byte, 100), make([]byte, 100)
	n := 0
	if allocs := testing.AllocsPerRun(100, func() {
		if fault := Guard(func() { n += copy(a, b) }); fault != nil {
			t.Fatal(fault)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// The cost of Guard without a fault.
func BenchmarkGuard(b *testing.B) {
	x, y := make([]byte, 64), make([]byte, 64)
	for b.Loop() {
		if fault := Guard(func() { copy(x, y) }); fault != nil {
			b.Fatal(fault)
		}
	}
}
