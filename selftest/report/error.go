package report

import (
	"errors"
	"fmt"
	"syscall"
)

// Error describes why a command was refused or stopped. It matches Errno: use errors.Is(err, syscall.ENOENT),
// for example. selftest 8 defines how errors are printed.
type Error struct {
	Errno syscall.Errno `json:"errno"`
	// What is the kind of object that the error concerns: "session", "group", "batch", "test", "nodes" or
	// "console". Name is its name, if it has one.
	What string `json:"what"`
	Name string `json:"name,omitempty"`
	// Reason gives details. It may be empty.
	Reason string `json:"reason,omitempty"`
}

// Error returns the error as text for logs.
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

// Unwrap returns Errno.
func (e *Error) Unwrap() error { return e.Errno }

// ErrGroupChanged means that two samples cannot be compared, because they have different nodes.
var ErrGroupChanged = errors.New("selftest: the nodes of the group changed between the two samples")
