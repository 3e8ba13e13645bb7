//go:build mpi

package shim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "load.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/cgo"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// installed is the directory of shims that a package has installed.
const installed = "/usr/lib/lnetd"

// opened is whether Open has opened a library. A process can initialize MPI once.
var opened atomic.Bool

// Open loads a shim and opens its MPI library. library is OpenMPI, MPICH, or the path of a shim, which contains a
// slash. If it is empty, Open uses that of the mpirun that has started the process. Open is collective if it
// initializes MPI: it blocks until all processes of the job have called it. It succeeds once in a process. The caller
// must be locked to its thread, and make all later calls.
//
// It returns boundary.ErrNoLibrary if the shim or the library cannot be loaded, and boundary.ErrLauncher if the process
// was not started by the library's mpirun, or with fewer processes than needed. It returns boundary.ErrNotInitialized if
// the program has finalized MPI, or has passed a communicator without having initialized it.
func Open(library string, o Options) (boundary.MPI, error) {
	l := findLauncher(os.Getenv)
	if library == "" {
		if library = l.kind; library == "" {
			return nil, fmt.Errorf("shim: open: %w: the environment is not that of Open MPI's or MPICH's mpirun, so the library must be named", boundary.ErrLauncher)
		}
	}
	m := &mpi{spin: o.Spin}
	if err := m.load(library, o.Dir); err != nil {
		return nil, fmt.Errorf("shim: open %s: %w", library, err)
	}
	if err := l.checkKind(C.GoString(m.c.kind)); err != nil {
		return nil, fmt.Errorf("shim: open %s: %w", library, err)
	}
	if !opened.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("shim: open %s: this process has opened an MPI library before", library)
	}
	if err := m.initialize(o, l); err != nil {
		return nil, fmt.Errorf("shim: open %s: %w", library, err)
	}
	m.kept = cgo.NewHandle(m)
	return m, nil
}

// load loads the shim, and with it the library.
func (m *mpi) load(library, dir string) error {
	path := library
	if !strings.Contains(library, "/") {
		path = find("lnetd-"+library+".so", dir)
	}
	var text [512]C.char
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if m.c = C.load_shim(name, &text[0], C.int(len(text))); m.c == nil {
		return fmt.Errorf("%w (%s)", boundary.ErrNoLibrary, C.GoString(&text[0]))
	}
	return nil
}

// find returns the path of a shim in the directory dir. If dir is empty, it looks in the usual directories.
func find(name, dir string) string {
	if dir != "" {
		return filepath.Join(dir, name)
	}
	if program, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(program), name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(installed, name)
}

// initialize opens the library, and checks that it can be used.
func (m *mpi) initialize(o Options, l launcher) error {
	var out C.shim_opened
	var passed C.int
	var comm C.int32_t
	if o.Comm != nil {
		passed, comm = 1, C.int32_t(*o.Comm)
	}
	rc := C.open_shim(m.c, passed, comm, &out)
	if rc > 0 {
		return boundary.ErrNotInitialized // MPI has no text for it: MPI_Error_string of Open MPI would end the program
	}
	if err := m.failed("initialize", rc); err != nil {
		return err
	}
	err := l.checkSize(int(out.world), o)
	if out.initialized == 0 && out.level < 2 {
		err = boundary.ErrThreads
	}
	if err != nil {
		return errors.Join(err, m.failed("close", C.call_close(m.c)))
	}
	m.maxTag = int(out.max_tag)
	m.maxHost = int(out.max_host)
	var text [1024]C.char
	C.call_version(m.c, &text[0], C.int(len(text)))
	m.library = strings.Join(strings.Fields(firstLine(C.GoString(&text[0]))), " ")
	return nil
}

// firstLine returns the first line of a library's description. MPICH describes how it was built in the others.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
