package transport

import "golang.org/x/sys/unix"

// canHide reports whether memory can be excluded from core dumps.
const canHide = true

// hide excludes memory, up to the end of its last page, from core dumps. The memory must begin at a page.
func hide(memory []byte) error { return unix.Madvise(memory, unix.MADV_DONTDUMP) }

// unhide reverts hide. An error does not matter, because the memory is about to be released.
func unhide(memory []byte) { _ = unix.Madvise(memory, unix.MADV_DODUMP) }
