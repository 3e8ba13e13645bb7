package memory

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Fault is memory that is mapped and has no page, and for which none can be had: the file
// behind it is shorter by now, or the machine is out of memory, or of huge pages. It is an
// EFAULT, as system calls say.
type Fault struct {
	// Address is what was touched.
	Address uintptr
}

func (f *Fault) Error() string { return fmt.Sprintf("memory: no page at %#x", f.Address) }

// Unwrap is EFAULT.
func (f *Fault) Unwrap() error { return syscall.EFAULT }

// In tells whether v has the address.
func (f *Fault) In(v Vector) (in bool) {
	v.pieces(func(s Segment) bool {
		in = f.Address-uintptr(unsafe.Pointer(unsafe.SliceData(s.Bytes))) < uintptr(len(s.Bytes))
		return !in
	})
	return in
}

// Guard calls f, which touches memory that others have a hand in, and returns the Fault
// that ended it, nil if none did. It costs a few nanoseconds, and f must leave nothing
// locked behind.
func Guard(f func()) (fault *Fault) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		e, ok := p.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(p)
		}
		fault = &Fault{Address: e.Addr()}
	}()
	f()
	return nil
}

// pageSize is how far apart Check looks: no machine has smaller pages.
const pageSize = 4096

// Check reads a byte of each page of m, and returns the Fault that this makes, else nil.
func (m Vector) Check() *Fault {
	var sum byte
	return Guard(func() {
		m.pieces(func(s Segment) bool {
			for at := 0; at < len(s.Bytes); at += pageSize {
				sum += s.Bytes[at]
			}
			sum += s.Bytes[len(s.Bytes)-1]
			return true
		})
	})
}
