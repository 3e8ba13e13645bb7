//go:build mpi && cgo

package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -I${SRCDIR}/../../client/c/src
#include <lnetd.h>
*/
import "C"

import "unsafe"

// cString is a string that C may read at any time. It is never freed.
type cString = *C.char

func newCString(s string) cString { return C.CString(s) }

// failed writes the reason of an error to text, and returns the error as a result for C.
func failed(err error, text *C.char, size C.int) C.int {
	if err == nil {
		return 0
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(size))
	n := copy(b[:len(b)-1], err.Error())
	b[n] = 0
	return -C.int(errno(err))
}

//export lnetMPIInit
func lnetMPIInit(comm C.int32_t, text *C.char, size C.int) C.int {
	return failed(initialize(int32(comm)), text, size)
}

//export lnetMPIFinalize
func lnetMPIFinalize(text *C.char, size C.int) C.int {
	return failed(finalize(), text, size)
}

//export lnetMPISocket
func lnetMPISocket() *C.char {
	l, err := current()
	if err != nil {
		return nil
	}
	return l.socket
}

//export lnetMPISize
func lnetMPISize(text *C.char, size C.int) (n C.int) {
	err := withLibrary(func(l *library) error {
		n = C.int(len(l.process.Members()))
		return nil
	})
	if err != nil {
		return failed(err, text, size)
	}
	return n
}

//export lnetMPIRank
func lnetMPIRank(text *C.char, size C.int) (n C.int) {
	err := withLibrary(func(l *library) error {
		n = C.int(l.rank())
		return nil
	})
	if err != nil {
		return failed(err, text, size)
	}
	return n
}

//export lnetMPIAddress
func lnetMPIAddress(process C.int, addr *C.struct_lnetd_addr, text *C.char, size C.int) (proxy C.int) {
	err := withLibrary(func(l *library) error {
		m, err := l.member(int(process))
		if err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&addr.nid.bytes[0])), len(addr.nid.bytes)), m.NID.AppendLarge(nil))
		addr.pid = C.uint32_t(m.PID)
		if m.Proxy {
			proxy = 1
		}
		return nil
	})
	if err != nil {
		return failed(err, text, size)
	}
	return proxy
}

//export lnetMPIRoute
func lnetMPIRoute(net *C.char, text *C.char, size C.int) C.int {
	return failed(withLibrary(func(l *library) error { return l.route(C.GoString(net)) }), text, size)
}
