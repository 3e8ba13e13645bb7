package systemd

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendPatience is the maximum time to wait if the manager does not read messages.
const sendPatience = 5 * time.Second

// sender returns a function that sends messages and files to the manager's socket at path. If the path begins
// with "@", it is an abstract socket.
func sender(path string) func(string, []*os.File) error {
	return func(message string, files []*os.File) error {
		return withFDs(files, nil, func(fds []int) error { return send(path, message, fds) })
	}
}

// send sends one message with file descriptors to the socket at path.
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

// withFDs calls do with fds followed by the descriptors of files. It does not use File.Fd, because this would
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
