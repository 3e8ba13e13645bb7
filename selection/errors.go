package selection

import "errors"

// Errors of Choose and Policies. They are wrapped with a description of the request or
// rule.
var (
	// ErrSource means that the source is not an NI of this node (EINVAL).
	ErrSource = errors.New("source is not a NID of this node")
	// ErrUnreachable means that there is neither a direct path nor a route (EHOSTUNREACH).
	ErrUnreachable = errors.New("unreachable")
	// ErrInconsistent means that parts of the view contradict each other, for example because
	// the chosen gateway is on a net that was removed after the route was read (EFAULT).
	ErrInconsistent = errors.New("the configuration changed during path selection")
	// ErrExists means that a rule for the same objects or with the same ID exists (EALREADY).
	ErrExists = errors.New("the rule already exists")
	// ErrNotFound means that the rule does not exist (ENOENT).
	ErrNotFound = errors.New("no such rule")
	// ErrInvalid means that a rule or its text is invalid (EINVAL).
	ErrInvalid = errors.New("invalid rule")
)
