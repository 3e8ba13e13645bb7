package transport

import "golang.org/x/sys/unix"

// canHide tells whether memory can be left out of core dumps.
const canHide = true

// hide leaves memory, which begins at a page, and the rest of its last page, out of core
// dumps.
func hide(memory []byte) error { return unix.Madvise(memory, unix.MADV_DONTDUMP) }

// unhide takes back what hide did. It does not matter if it cannot: the memory is given up.
func unhide(memory []byte) { _ = unix.Madvise(memory, unix.MADV_DODUMP) }
