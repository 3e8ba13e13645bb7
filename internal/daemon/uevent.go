package daemon

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

// maxUevent is how long an event may be (the kernel's buffer has 2 KiB, and the path comes on top).
const maxUevent = 16 << 10

// watchRDMA calls event after each of the kernel's events about RDMA devices: one has come, gone or
// changed, or a process may not use one any more. It also calls it when events were lost. It returns
// when ctx is done.
func watchRDMA(ctx context.Context, event func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("device events: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), "uevents")
	defer func() { _ = f.Close() }()
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelEvents}); err != nil {
		return fmt.Errorf("device events: %w", os.NewSyscallError("bind", err))
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	event() // what came before the subscription
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

// ofRDMA reports whether an event of the kernel's is about an RDMA device, or about the file by which
// processes use one. An event is "ACTION@PATH" and then "KEY=VALUE" words, each with a zero byte behind it.
func ofRDMA(b []byte) bool {
	head, words, _ := bytes.Cut(b, []byte{0})
	if !bytes.ContainsRune(head, '@') {
		return false // of another program: such events begin otherwise
	}
	for word := range bytes.SplitSeq(words, []byte{0}) {
		switch string(word) {
		case "SUBSYSTEM=infiniband", "SUBSYSTEM=infiniband_verbs":
			return true
		}
	}
	return false
}
