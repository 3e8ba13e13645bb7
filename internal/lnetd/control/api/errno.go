package api

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
)

// Errno returns the Linux error number that err wraps. If err wraps none, it returns ETIMEDOUT for a
// timeout, ECANCELED for a cancellation, and EIO for any other error. It returns 0 only if err is nil.
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

// FullDisk tells the operator what to do if file could not be written because the file system is full or
// the user's quota is used up. It returns "" if err is another error.
func FullDisk(file string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "the file system of " + file + ` is full: free blocks or inodes there (see "df" and "df -i")`
	case errors.Is(err, syscall.EDQUOT):
		return "the quota on the file system of " + file + ` is used up: free space there, or raise the quota (see "quota")`
	}
	return ""
}

// Strerror returns the C library's text for an error number.
func Strerror(e syscall.Errno) string {
	s := e.Error() // the text of the C library, but with a lower-case letter at the beginning
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
