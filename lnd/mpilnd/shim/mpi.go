//go:build mpi

package shim

/*
#include <stdlib.h>
#include "load.h"
#cgo noescape call_poll
#cgo nocallback call_poll
#cgo nocallback call_send
#cgo nocallback call_receive
#cgo nocallback call_wake
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/cgo"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// mpi implements boundary.MPI.
type mpi struct {
	c       *C.shim
	library string
	maxTag  int
	maxHost int // bytes of the name of a host
	spin    time.Duration
	world   *comm
	batch   [64]C.shim_done
	slots   []*request // of all requests, also those that are free
	free    []int      // indices in slots of those
	kept    cgo.Handle // keeps the mpi, and with it the pinned memory, until Close
}

// request pins the memory of an incomplete request.
type request struct{ pin runtime.Pinner }

func (m *mpi) Library() string { return m.library }
func (m *mpi) MaxTag() int     { return m.maxTag }
func (m *mpi) Wake()           { C.call_wake(m.c) }

func (m *mpi) World() (boundary.Comm, error) {
	if m.world == nil {
		var rank, size C.int32_t
		if err := m.failed("duplicate the communicator", C.call_dup(m.c, &rank, &size)); err != nil {
			return nil, err
		}
		m.world = &comm{m: m, rank: int(rank), size: int(size)}
	}
	return m.world, nil
}

func (m *mpi) OpenPort() (string, error) {
	var name [portSize]C.char
	if err := m.connection("open a port", C.call_open_port(m.c, &name[0], portSize)); err != nil {
		return "", err
	}
	return C.GoString(&name[0]), nil
}

// portSize is longer than the names of ports in all libraries.
const portSize = 4096

func (m *mpi) Accept(port string) (boundary.Comm, error)  { return m.join("accept", 1, port) }
func (m *mpi) Connect(port string) (boundary.Comm, error) { return m.join("connect", 0, port) }

func (m *mpi) join(what string, accept C.int, port string) (boundary.Comm, error) {
	if _, err := m.World(); err != nil {
		return nil, err
	}
	name := C.CString(port)
	defer C.free(unsafe.Pointer(name))
	var number, size C.int32_t
	rc := C.call_join(m.c, accept, name, &number, &size)
	return m.connected(what, rc, number, size)
}

func (m *mpi) Spawn(p boundary.Program) (boundary.Comm, error) {
	if _, err := m.World(); err != nil {
		return nil, err
	}
	words := append([]string{p.Path}, p.Args...)
	if slices.ContainsFunc(slices.Concat(words, p.Hosts), func(w string) bool { return strings.Contains(w, "\x00") }) {
		return nil, errors.New("mpi: spawn: an argument or a host contains a zero byte")
	}
	for _, host := range p.Hosts {
		if len(host) > m.maxHost {
			return nil, fmt.Errorf("mpi: spawn: the name of the host %s has more than %d bytes", host, m.maxHost)
		}
	}
	all, hosts := C.CString(strings.Join(words, "\x00")), C.CString(strings.Join(p.Hosts, "\x00"))
	defer C.free(unsafe.Pointer(all))
	defer C.free(unsafe.Pointer(hosts))
	var number, size C.int32_t
	rc := C.call_spawn(m.c, all, C.int(len(words)), hosts, C.int(len(p.Hosts)), &number, &size)
	return m.connected("spawn", rc, number, size)
}

func (m *mpi) Parent() (boundary.Comm, error) {
	if _, err := m.World(); err != nil {
		return nil, err
	}
	var number, size C.int32_t
	rc := C.call_parent(m.c, &number, &size)
	if rc > 0 {
		return nil, fmt.Errorf("mpi: parent: %w", boundary.ErrNoParent)
	}
	return m.connected("parent", rc, number, size)
}

// connected returns the inter-communicator of a call that connects jobs, or the error for its result.
func (m *mpi) connected(what string, rc C.int, number, size C.int32_t) (boundary.Comm, error) {
	if err := m.connection(what, rc); err != nil {
		return nil, err
	}
	return &comm{m, int(number), m.world.rank, int(size)}, nil
}

// connection returns the error for a result of a call that connects jobs.
func (m *mpi) connection(what string, rc C.int) error {
	if rc > 0 {
		return fmt.Errorf("mpi: %s: %s: %w (%s)", what, m.library, boundary.ErrNoConnections, m.text(rc))
	}
	return m.failed(what, rc)
}

func (m *mpi) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	n := C.call_poll(m.c, &m.batch[0], C.int(min(len(done), len(m.batch))), C.int64_t(wait), C.int64_t(m.spin))
	if n < 0 {
		return 0, m.failed("poll", n)
	}
	for k := range m.batch[:n] {
		d := &m.batch[k]
		done[k] = boundary.Done{ID: uint64(d.id), From: int(d.from), Tag: int(d.tag), Length: int(d.length), Cancelled: d.cancelled != 0}
		if d.error != 0 {
			done[k].Err = m.requestError(d)
		}
		m.release(int(d.slot))
	}
	return int(n), nil
}

// requestError returns why a request failed.
func (m *mpi) requestError(d *C.shim_done) error {
	what := "send"
	if d.receive != 0 {
		what = "receive"
	}
	err := m.failed(what, -d.error)
	if d.truncated != 0 {
		err = fmt.Errorf("%w (%w)", boundary.ErrTruncated, err)
	}
	return err
}

func (m *mpi) Close() error {
	if n := len(m.slots) - len(m.free); n > 0 {
		return fmt.Errorf("mpi: close: %d requests are left", n)
	}
	err := m.failed("close", C.call_close(m.c))
	m.kept.Delete()
	return err
}

// acquire returns a slot for a request with the memory b, which it pins, and the address of b.
func (m *mpi) acquire(b []byte) (slot int, address C.uintptr_t) {
	if len(m.free) == 0 {
		m.free = append(m.free, len(m.slots))
		m.slots = append(m.slots, &request{})
	}
	slot = m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return slot, pinned(&m.slots[slot].pin, b)
}

// release unpins the memory of a request.
func (m *mpi) release(slot int) {
	m.slots[slot].pin.Unpin()
	m.free = append(m.free, slot)
}

// pinned pins b and returns its address, which is 0 if b is empty.
func pinned(p *runtime.Pinner, b []byte) C.uintptr_t {
	if len(b) == 0 {
		return 0
	}
	p.Pin(&b[0])
	return C.uintptr_t(uintptr(unsafe.Pointer(&b[0])))
}

// failed returns the error for a result of the shim. It returns nil if the result is 0.
func (m *mpi) failed(what string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return fmt.Errorf("mpi: %s: %w", what, errors.New(m.text(-rc)))
}

// text returns the library's text for an error code.
func (m *mpi) text(code C.int) string {
	var text [512]C.char
	C.call_error(m.c, code, &text[0], C.int(len(text)))
	return C.GoString(&text[0])
}
