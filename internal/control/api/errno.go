package api

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
)

// Errno is the Linux error number in err's chain; without one ETIMEDOUT or
// ECANCELED for what ran out of time or was given up, else EIO, and 0 for nil alone.
func Errno(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno) && errno != 0:
		return errno
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return syscall.ETIMEDOUT
	case errors.Is(err, context.Canceled):
		return syscall.ECANCELED
	}
	return syscall.EIO
}

// FullDisk says what helps where err is that of a file that has no room: its file system is
// full, or a user's share of it. It is empty for other errors.
func FullDisk(file string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the file system of " + file + ` is full: free blocks or inodes there (see "df" and "df -i")`
	case errors.Is(err, syscall.EDQUOT):
		return "the quota on the file system of " + file + ` is used up: free space there, or raise it (see "quota")`
	}
	return ""
}

// Strerror returns the C library's text for an error number.
func Strerror(e syscall.Errno) string {
	s := e.Error() // the same text, but in lower case
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
