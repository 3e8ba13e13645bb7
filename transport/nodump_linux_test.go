package transport

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// dumped reports whether core dumps include the memory at b. Excluded memory has the flag dd in smaps.
func dumped(t *testing.T, b []byte) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	here := false
	for line := range bytes.Lines(maps) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &from, &to); n == 2 {
			here = from <= at && at < to
		} else if flags, ok := bytes.CutPrefix(line, []byte("VmFlags:")); ok && here {
			return !slices.ContainsFunc(bytes.Fields(flags), func(f []byte) bool { return string(f) == "dd" })
		}
	}
	t.Fatalf("no memory at %#x", at)
	return false
}

// Memory of a pool with NoDump is excluded from core dumps.
//
// transport 4 init
func TestMemoryThatIsNotDumped(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w := newTestPool(t, func(c *PoolConfig) { c.NoDump = hidden })
		w.provision(1)
		b := w.get(1, AnyColour)[0]
		memory := b.Bytes()
		for _, at := range []int{0, len(memory) - 1} {
			if got := dumped(t, memory[at:]); got == hidden {
				t.Errorf("NoDump %v, byte %d: dumped %v", hidden, at, got)
			}
		}
		w.put(0, b)
		w.core.failDeregister = func() error { return syscall.EBUSY }
		if err := w.pool.Close(); err == nil || dumped(t, memory) == hidden {
			t.Errorf("NoDump %v, and the core keeps the memory: dumped %v, %v", hidden, !hidden, err)
		}
		w.core.failDeregister = nil
		if err := w.pool.Close(); err != nil || !dumped(t, memory) {
			t.Errorf("NoDump %v: memory that was given up is not dumped, %v", hidden, err)
		}
	}
}
