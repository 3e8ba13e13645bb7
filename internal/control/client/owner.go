package client

import (
	"os"
	"syscall"

	"github.com/lnetd/lnetd/internal/control/api"
)

// rootsOrOwn trusts the sockets that root or the caller listens on.
func rootsOrOwn(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// foreignError refuses a socket that nobody has named and that is another
// user's.
type foreignError struct{ owner api.Process }

func (e *foreignError) Error() string {
	return "it belongs to neither root nor the caller but to " + e.owner.String()
}

func (e *foreignError) Unwrap() error { return syscall.EPERM }
