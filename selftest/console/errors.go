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
	// errEnding is returned by a command whose session is ending.
	errEnding = &Error{Errno: syscall.ESHUTDOWN, What: "session", Reason: "the session is ending"}
	errNone   = &Error{Errno: syscall.ESRCH, What: "session", Reason: "the console has no session"}
	errClosed = &Error{Errno: syscall.ESHUTDOWN, What: "console", Reason: "the console was closed"}
)

// stopped returns the cause of ctx's end if ctx is done, and nil otherwise.
func stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// maxName is the maximum length of a name in the protocol, in bytes.
const maxName = 31

func checkName(what, name string) error {
	switch {
	case name == "":
		return refuse(syscall.EINVAL, what, name, "the name is empty")
	case len(name) > maxName:
		return refuse(syscall.EINVAL, what, name, "the name has %d bytes, more than %d", len(name), maxName)
	}
	// Names are printed on terminals, also those that other processes choose when they join.
	if message.NameOf(name).Printable() != name {
		return refuse(syscall.EINVAL, what, name, "the name contains unprintable characters")
	}
	return nil
}
