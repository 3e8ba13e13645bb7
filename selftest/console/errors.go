package console

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/selftest/message"
)

func refuse(errno syscall.Errno, what, name, format string, args ...any) *Error {
	return &Error{Errno: errno, What: what, Name: name, Reason: fmt.Sprintf(format, args...)}
}

func notFound(what, name string) *Error { return &Error{Errno: syscall.ENOENT, What: what, Name: name} }

var (
	// errEnding is why commands stop when their session ends.
	errEnding = &Error{Errno: syscall.ESHUTDOWN, What: "session", Reason: "it is being ended"}
	errNone   = &Error{Errno: syscall.ESRCH, What: "session", Reason: "there is none"}
	errClosed = &Error{Errno: syscall.ESHUTDOWN, What: "console", Reason: "it was closed"}
)

// stopped is why ctx is done, or nil.
func stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// maxName is how many bytes of a name the protocol carries.
const maxName = 31

func checkName(what, name string) error {
	switch {
	case name == "":
		return refuse(syscall.EINVAL, what, name, "no name")
	case len(name) > maxName:
		return refuse(syscall.EINVAL, what, name, "name of %d bytes, %d at most", len(name), maxName)
	}
	// Names, those that processes join by included, are shown on terminals.
	if message.NameOf(name).Printable() != name {
		return refuse(syscall.EINVAL, what, name, "the name has characters that cannot be shown")
	}
	return nil
}
