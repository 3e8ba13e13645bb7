package numa_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/selection"
)

// The kernel reports the nodes of used pages. If it refuses, the CPT is unknown and the
// result final.
func TestPagesOfTheKernel(t *testing.T) {
	_, _, refused := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, 0)
	page := unix.Getpagesize()
	b, err := unix.Mmap(-1, 0, 32*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	// The real pages are on node 0, or on one that this machine does not have.
	m := read(t, "devices/system/node/node0/cpulist", "0-9", "devices/system/node/node0/distance", "10 20",
		"devices/system/node/node7777/cpulist", "10", "devices/system/node/node7777/distance", "20 10")
	if cpt, settled := m.OfMemory(b); cpt != selection.UnknownCPT || settled != (refused != 0) {
		t.Errorf("unused: CPT %d, settled %v, %v", cpt, settled, refused)
	}
	for k := 0; k < len(b); k += page {
		b[k] = 1
	}
	if cpt, settled := m.OfMemory(b); cpt > 0 || !settled {
		t.Errorf("used: CPT %d, settled %v", cpt, settled)
	}
}
