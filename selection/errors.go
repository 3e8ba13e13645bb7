package selection

import "errors"

// What Choose and Policies report, wrapped with what was asked for.
var (
	// ErrSource: the source is not an NI of this node (EINVAL).
	ErrSource = errors.New("source is not a NID of this node")
	// ErrUnreachable: there is no path and no route (EHOSTUNREACH).
	ErrUnreachable = errors.New("unreachable")
	// ErrInconsistent: the views contradict each other, as when the chosen
	// gateway is on a net that was removed meanwhile (EFAULT).
	ErrInconsistent = errors.New("inconsistent view")
	// ErrExists: there is such a rule (EALREADY).
	ErrExists = errors.New("rule exists")
	// ErrNotFound: there is no such rule (ENOENT).
	ErrNotFound = errors.New("no such rule")
	// ErrInvalid: a rule or its text makes no sense (EINVAL).
	ErrInvalid = errors.New("invalid rule")
)
