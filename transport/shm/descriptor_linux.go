package shm

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor with short uses by several goroutines. If one of them closes it, the last
// user closes the file. It is not an *os.File, because the runtime's poller would wake up for each token
// that the other side reads.
type descriptor struct {
	fd int
	// users is the number of users, plus closing after close.
	users atomic.Int64
}

const closing = math.MinInt64

// use reports whether the caller may use fd. If so, the caller must call done.
func (d *descriptor) use() bool {
	for {
		n := d.users.Load()
		if n < 0 {
			return false
		}
		if d.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (d *descriptor) done() {
	if d.users.Add(-1) == closing {
		_ = unix.Close(d.fd)
	}
}

// close prevents new uses. It does not wait for current ones.
func (d *descriptor) close() {
	for {
		n := d.users.Load()
		if n < 0 {
			return
		}
		if d.users.CompareAndSwap(n, n+1+closing) {
			d.done()
			return
		}
	}
}
