//go:build o2ib && cgo

package rdmacore

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// context is an RDMA device as librdmacm has opened it. The library keeps it open until the process ends.
// Some devices that several drivers share, such as soft-RoCE, cannot be removed while a process has them
// open: "rdma link delete" hangs. So when the kernel has begun to remove the device, and this process no
// longer uses it, the descriptors are replaced by ones of /dev/null. The library may close those at any
// time.
type context struct {
	files   [2]file // for commands and for events
	sysfs   string  // this directory disappears when the removal begins
	inode   uint64  // of the directory, because another device may get its name
	over    bool    // librdmacm has reported that the device is removed
	devices map[*device]struct{}
}

// file is a descriptor and the file that it was opened on. The library may have closed the descriptor
// since.
type file struct {
	fd         int
	dev, inode uint64
	rdev       uint64
}

// contexts are the contexts of this process, by the library's address.
var contexts struct {
	sync.Mutex
	all map[uintptr]*context
}

// noteContext records that this process has the context at key, with its descriptors and its directory in
// sysfs, and that d uses it if d is not nil.
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

// releaseRemoved reports removed devices to their users, and releases those that are not in use.
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

// endContext records that the device of the context at key is removed.
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

func fileOf(fd int) (f file) {
	var s unix.Stat_t
	if unix.Fstat(fd, &s) == nil {
		f = file{fd: fd, dev: s.Dev, inode: s.Ino, rdev: s.Rdev}
	}
	return f
}

// discard replaces the descriptor, unless it refers to another file by now.
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

// lost makes Events return verbs.AsyncDeviceFatal once.
func (d *device) lost() {
	if d.removed.CompareAndSwap(present, reported) {
		_ = d.w.file.SetReadDeadline(time.Unix(1, 0)) // wakes Events
	}
}

// States of device.removed: present, removed but not reported, reported.
const (
	present int32 = iota
	reported
	told
)

// fatal returns the event of a removed device if it is still to be delivered.
func (d *device) fatal(ev []verbs.AsyncEvent) int {
	if len(ev) == 0 || !d.removed.CompareAndSwap(reported, told) {
		return 0
	}
	_ = d.w.file.SetReadDeadline(time.Time{})
	ev[0] = verbs.AsyncEvent{Kind: verbs.AsyncDeviceFatal}
	return 1
}
