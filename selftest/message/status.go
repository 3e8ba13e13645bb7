package message

import "syscall"

// Status is the result in a reply: 0 for success, or a positive Linux errno.
type Status uint32

// The values that nodes and consoles send.
const (
	OK      Status = 0
	ENOENT  Status = 2
	ESRCH   Status = 3
	ENOMEM  Status = 12
	EBUSY   Status = 16
	EEXIST  Status = 17
	EINVAL  Status = 22
	EPROTO  Status = 71
	EBADMSG Status = 74
)

// Err returns nil for OK, and otherwise the status as a syscall.Errno.
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return syscall.Errno(s)
}

func (s Status) String() string {
	if s == OK {
		return "ok"
	}
	return syscall.Errno(s).Error()
}
