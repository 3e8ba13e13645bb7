package systemd

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sendPatience bounds the wait for a manager that does not read.
const sendPatience = 5 * time.Second

// sender sends to a manager that listens at a path; "@" begins an abstract one.
func sender(path string) func(string, []*os.File) error {
	at := &net.UnixAddr{Name: path, Net: "unixgram"}
	return func(message string, files []*os.File) error {
		conn, err := net.DialUnix(at.Net, nil, at)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetWriteDeadline(time.Now().Add(sendPatience)); err != nil {
			return err
		}
		return withFDs(files, nil, func(fds []int) error {
			var rights []byte
			if len(fds) > 0 {
				rights = unix.UnixRights(fds...)
			}
			_, _, err := conn.WriteMsgUnix([]byte(message), rights, nil)
			return err
		})
	}
}

// withFDs calls do with the descriptors of files, behind fds. File.Fd would make them block,
// and with them the listeners that they are copies of.
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
