package hostnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelEvents is the multicast group of the kernel's own events about devices.
const kernelEvents = 1

// maxUevent is the maximum length of an event. The kernel's buffer has 2 KiB, and the path is
// added.
const maxUevent = 16 << 10

// subscribeRDMA returns a file that receives the kernel's own events about devices.
func subscribeRDMA() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("device events: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), "uevents")
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelEvents}); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("device events: %w", os.NewSyscallError("bind", err))
	}
	return f, nil
}

// receiveRDMA calls event after each kernel event about RDMA devices: a device was added, removed
// or changed, or a process may no longer use one. It also calls event if events were lost. When ctx is
// done it closes f and returns.
func receiveRDMA(ctx context.Context, f *os.File, event func()) error {
	defer func() { _ = f.Close() }()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	b := make([]byte, maxUevent)
	for {
		n, err := f.Read(b)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			event()
		case err != nil:
			return fmt.Errorf("device events: %w", err)
		case ofRDMA(b[:n]):
			event()
		}
	}
}

// ofRDMA reports whether a kernel event is about an RDMA device, or about the file by which
// processes use one. An event is "ACTION@PATH" followed by "KEY=VALUE" words, each terminated by
// a zero byte.
func ofRDMA(b []byte) bool {
	head, words, _ := bytes.Cut(b, []byte{0})
	if !bytes.ContainsRune(head, '@') {
		return false // sent by another program; such events begin otherwise
	}
	for word := range bytes.SplitSeq(words, []byte{0}) {
		switch string(word) {
		case "SUBSYSTEM=infiniband", "SUBSYSTEM=infiniband_verbs":
			return true
		}
	}
	return false
}
