package transport

import "golang.org/x/sys/unix"

// canHide reports whether memory can be excluded from core dumps.
const canHide = true

// hide excludes memory from core dumps, including the rest of its last page. The memory must begin at a page
// boundary.
func hide(memory []byte) error { return unix.Madvise(memory, unix.MADV_DONTDUMP) }

// unhide reverts hide. It ignores errors, because the memory is about to be released.
func unhide(memory []byte) { _ = unix.Madvise(memory, unix.MADV_DODUMP) }
