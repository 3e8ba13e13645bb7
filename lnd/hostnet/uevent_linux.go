package hostnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelEvents is the multicast group of the events about devices that the kernel itself sends.
const kernelEvents = 1

// maxUevent is the maximum length of an event in bytes. The kernel's buffer has 2 KiB, to which the path is
// added.
const maxUevent = 16 << 10

// subscribeRDMA returns a file that receives the events about devices that the kernel itself sends.
func subscribeRDMA() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("subscribe to RDMA device events: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), "uevents")
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelEvents}); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("subscribe to RDMA device events: %w", os.NewSyscallError("bind", err))
	}
	return f, nil
}

// receiveRDMA calls event after each kernel event about RDMA devices: a device was added, removed or changed,
// or the file was removed by which processes use a device. It also calls event if events were lost. It closes f
// and returns when ctx is done or an error occurs.
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
			return fmt.Errorf("receive RDMA device events: %w", err)
		case ofRDMA(b[:n]):
			event()
		}
	}
}

// ofRDMA reports whether a kernel event is about an RDMA device, or about the file by which processes use a
// device. An event is "ACTION@PATH" followed by "KEY=VALUE" words, each terminated by a zero byte.
func ofRDMA(b []byte) bool {
	head, words, _ := bytes.Cut(b, []byte{0})
	if !bytes.ContainsRune(head, '@') {
		return false // another program has sent the event; such events have no action at the beginning
	}
	for word := range bytes.SplitSeq(words, []byte{0}) {
		switch string(word) {
		case "SUBSYSTEM=infiniband", "SUBSYSTEM=infiniband_verbs":
			return true
		}
	}
	return false
}
