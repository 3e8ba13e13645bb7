package console

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/selftest/message"
)

// Error is why a command was refused or stopped. errors.Is finds the number:
// errors.Is(err, syscall.ENOENT). See selftest 8 for how they are shown.
type Error struct {
	Errno syscall.Errno `json:"errno"`
	// What kind of thing it is about: "session", "group", "batch", "test",
	// "nodes"; and its name, if it has one.
	What string `json:"what"`
	Name string `json:"name,omitempty"`
	// Reason says more than the number does; it may be empty.
	Reason string `json:"reason,omitempty"`
}

// Error is the error as text, for logs.
func (e *Error) Error() string {
	s := "selftest: " + e.What
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	if e.Reason == "" {
		return s + ": " + e.Errno.Error()
	}
	return fmt.Sprintf("%s: %s (%s)", s, e.Reason, e.Errno.Error())
}

// Unwrap is the number.
func (e *Error) Unwrap() error { return e.Errno }

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

// ErrGroupChanged means that two samples are not of the same nodes.
var ErrGroupChanged = errors.New("selftest: group is changed")

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
