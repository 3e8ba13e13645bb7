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

// Strerror returns the C library's text for an error number.
func Strerror(e syscall.Errno) string {
	s := e.Error() // the same text, but in lower case
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
