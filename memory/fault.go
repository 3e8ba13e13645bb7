package memory

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Fault is the error for an access to memory that is mapped but has no page, and cannot get
// one: the file behind it was truncated, or the machine is out of memory or of huge pages.
// It matches syscall.EFAULT, the error of a system call in this case.
type Fault struct {
	// Address is the address of the access.
	Address uintptr
}

func (f *Fault) Error() string {
	return fmt.Sprintf("memory: the page at address %#x cannot be read or allocated", f.Address)
}

// Unwrap returns syscall.EFAULT.
func (f *Fault) Unwrap() error { return syscall.EFAULT }

// In reports whether the address lies in v.
func (f *Fault) In(v Vector) (in bool) {
	v.eachSegment(func(s Segment) bool {
		in = f.Address-uintptr(unsafe.Pointer(unsafe.SliceData(s.Bytes))) < uintptr(len(s.Bytes))
		return !in
	})
	return in
}

// Guard calls f, which accesses memory that other processes can unmap or truncate. It
// returns the Fault that ended f, or nil if f returned. It costs a few nanoseconds. f must
// not leave a lock held if it faults.
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

// pageSize is the interval at which Check reads. No machine has smaller pages.
const pageSize = 4096

// Check reads a byte of each page of m, and returns the Fault if an access fails, otherwise
// nil.
func (m Vector) Check() *Fault {
	var sum byte
	return Guard(func() {
		m.eachSegment(func(s Segment) bool {
			for at := 0; at < len(s.Bytes); at += pageSize {
				sum += s.Bytes[at]
			}
			sum += s.Bytes[len(s.Bytes)-1]
			return true
		})
	})
}
