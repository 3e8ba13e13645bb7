//go:build o2ib && cgo

package rdmacore

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// context is an RDMA device as librdmacm has opened it. The library keeps it open until the process ends. Some
// devices that several drivers share, such as soft-RoCE, cannot be removed while a process has them open: "rdma
// link delete" hangs. So when the kernel has begun to remove the device, and this process no longer uses it,
// this package makes the library's descriptors refer to /dev/null instead. The library may close these
// descriptors at any time.
type context struct {
	files   [2]file // the library's descriptors for commands and for events
	sysfs   string  // directory of the device, which disappears when the removal begins
	inode   uint64  // inode number of the directory, because another device may get its name
	over    bool    // librdmacm has reported that the device is removed
	devices map[*device]struct{}
}

// file is a descriptor of the library, and what identifies the file that it referred to. The library may have
// closed the descriptor since.
type file struct {
	fd         int
	dev, inode uint64
	rdev       uint64
}

// contexts are the contexts of this process, by their address in the library.
var contexts struct {
	sync.Mutex
	all map[uintptr]*context
}

// noteContext records the context with the address key, its descriptors, and its directory in sysfs. If d is
// not nil, it also records that d uses the context.
func noteContext(key uintptr, fds [2]int32, sysfs string, d *device) {
	contexts.Lock()
	defer contexts.Unlock()
	x := contexts.all[key]
	if x == nil {
		x = &context{devices: make(map[*device]struct{})}
		if contexts.all == nil {
			contexts.all = make(map[uintptr]*context)
		}
		contexts.all[key] = x
	}
	x.over = false
	x.sysfs = sysfs
	x.inode = inodeOf(x.sysfs)
	for k := range fds {
		x.files[k] = fileOf(int(fds[k]))
	}
	if d != nil {
		x.devices[d] = struct{}{}
	}
}

// leaveContext records that d no longer uses its context.
func leaveContext(d *device) {
	contexts.Lock()
	defer contexts.Unlock()
	if x := contexts.all[uintptr(d.context)]; x != nil {
		delete(x.devices, d)
	}
}

// releaseRemoved checks all contexts for devices that the kernel is removing. It reports such a device to its
// users, or releases it if there are no users.
func releaseRemoved() {
	contexts.Lock()
	defer contexts.Unlock()
	for key, x := range contexts.all {
		if !x.removed() {
			continue
		}
		for d := range x.devices {
			d.lost()
		}
		if len(x.devices) == 0 {
			for _, f := range x.files {
				f.discard()
			}
			delete(contexts.all, key)
		}
	}
}

// removed reports whether the kernel has begun to remove the device.
func (x *context) removed() bool { return x.over || x.inode != 0 && inodeOf(x.sysfs) != x.inode }

// endContext records that librdmacm has reported the removal of the device whose context has the address key.
func endContext(key uintptr) {
	contexts.Lock()
	defer contexts.Unlock()
	if x := contexts.all[key]; x != nil {
		x.over = true
	}
}

// inodeOf returns the inode number of a directory, or 0 if it does not exist.
func inodeOf(dir string) uint64 {
	var s unix.Stat_t
	if dir == "" || unix.Stat(dir, &s) != nil {
		return 0
	}
	return s.Ino
}

// fileOf returns the file that a descriptor refers to, or the zero file if the descriptor is not open.
func fileOf(fd int) (f file) {
	var s unix.Stat_t
	if unix.Fstat(fd, &s) == nil {
		f = file{fd: fd, dev: s.Dev, inode: s.Ino, rdev: s.Rdev}
	}
	return f
}

// discard makes the descriptor refer to /dev/null. It does nothing if the descriptor no longer refers to the
// same file.
func (f file) discard() {
	if f.inode == 0 || fileOf(f.fd) != f {
		return
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	_ = unix.Dup3(int(null.Fd()), f.fd, unix.O_CLOEXEC)
	_ = null.Close()
}

// lost makes Events return verbs.AsyncDeviceFatal, once per device.
func (d *device) lost() {
	if d.removed.CompareAndSwap(present, pending) {
		_ = d.w.file.SetReadDeadline(time.Unix(1, 0)) // wakes Events
	}
}

// States of device.removed: the device is present; it is removed and Events has to report that; Events has
// reported it.
const (
	present int32 = iota
	pending
	delivered
)

// fatal stores the event AsyncDeviceFatal in ev and returns 1 if the device is removed and this was not
// reported. Otherwise it returns 0.
func (d *device) fatal(ev []verbs.AsyncEvent) int {
	if len(ev) == 0 || !d.removed.CompareAndSwap(pending, delivered) {
		return 0
	}
	_ = d.w.file.SetReadDeadline(time.Time{})
	ev[0] = verbs.AsyncEvent{Kind: verbs.AsyncDeviceFatal}
	return 1
}
