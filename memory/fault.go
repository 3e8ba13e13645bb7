package memory

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Fault is the error for an access to memory that is mapped but has no page, and for which
// the kernel cannot provide one: the file behind the mapping was truncated, or the host has
// no free memory or huge pages. It matches syscall.EFAULT, the error that a system call
// returns in this case.
type Fault struct {
	// Address is the memory address that was accessed.
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

// Guard calls f, which accesses memory that other processes can unmap or truncate. If an
// access fails, f ends there and Guard returns the Fault. It returns nil if f has returned.
// f must not hold a lock during an access, because a fault would leave it locked. Guard
// costs a few nanoseconds.
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

// pageSize is the interval at which Check reads. No supported machine has smaller pages.
const pageSize = 4096

// Check reads a byte of each page of m. It returns the Fault if an access fails, and nil
// otherwise.
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
