package shared

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor that several goroutines use briefly. It can be closed while they use it;
// the last user then closes the file. It is not an *os.File, because the runtime's poller would wake up for
// each token that the other side reads.
type descriptor struct {
	fd int
	// users is the number of goroutines between use and done. The method close adds the constant closing,
	// which makes it negative.
	users atomic.Int64
}

const closing = math.MinInt64

// use reports whether the caller may use fd. If it returns true, the caller must call done.
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

// close makes further calls of use return false. It does not wait for current users.
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
