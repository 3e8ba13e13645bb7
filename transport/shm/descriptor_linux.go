package shm

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is one that goroutines use for a moment, while another one may close it:
// the last one out does. It is not an *os.File since the runtime would watch that, and
// wake up for each token that the other side takes.
type descriptor struct {
	fd int
	// users is how many use it, plus closing once nobody may any more.
	users atomic.Int64
}

const closing = math.MinInt64

// use tells whether the caller may use fd, until done.
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

// close lets nobody begin to use it. It does not wait for those who do.
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
