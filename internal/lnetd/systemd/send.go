package systemd

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendPatience is the timeout for a manager that does not read.
const sendPatience = 5 * time.Second

// sender returns a function that sends to the manager's socket at path. A leading "@" stands for
// an abstract socket.
func sender(path string) func(string, []*os.File) error {
	return func(message string, files []*os.File) error {
		return withFDs(files, nil, func(fds []int) error { return send(path, message, fds) })
	}
}

// send sends one message.
func send(path, message string, fds []int) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(s) }()
	patience := unix.NsecToTimeval(sendPatience.Nanoseconds())
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		_, err = unix.SendmsgN(s, []byte(message), rights, &unix.SockaddrUnix{Name: path}, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// withFDs calls do with fds and the descriptors of files. It does not use File.Fd, which would
// switch the files, and the listeners that share them, to blocking mode.
func withFDs(files []*os.File, fds []int, do func([]int) error) error {
	if len(files) == 0 {
		return do(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = withFDs(files[1:], append(fds, int(fd)), do) })
	return errors.Join(err, inner)
}
