package report

import (
	"errors"
	"fmt"
	"syscall"
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

// ErrGroupChanged means that two samples are not of the same nodes.
var ErrGroupChanged = errors.New("selftest: group is changed")
