package client

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/lnetd/lnetd/internal/control/api"
)

// trusted are those who may listen at a socket that was found at a path: root and the caller,
// and, in the directory of the system's lnetd, the user whom root has given that.
func trusted(path string) func(uid int) bool {
	if filepath.Dir(path) != api.SystemRunDir {
		return rootsOrOwn
	}
	return func(uid int) bool { return rootsOrOwn(uid) || uid == ownerOf(api.SystemRunDir) }
}

// ownerOf is the user to whom a directory belongs; -1 if others may write to it, or if
// anybody but root could have put it where it is.
func ownerOf(dir string) int {
	in, ok := ownWritable(filepath.Dir(dir))
	if !ok || in != 0 {
		return -1
	}
	uid, ok := ownWritable(dir)
	if !ok {
		return -1
	}
	return uid
}

// ownWritable is the user of a directory that nobody else may write to.
func ownWritable(dir string) (uid int, ok bool) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return -1, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(st.Uid), true
}

// rootsOrOwn trusts the sockets that root or the caller listens on.
func rootsOrOwn(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// foreignError refuses a socket that nobody has named and that is another
// user's.
type foreignError struct{ owner api.Process }

func (e *foreignError) Error() string {
	return "it belongs to neither root nor the caller nor the system's lnetd but to " + e.owner.String()
}

func (e *foreignError) Unwrap() error { return syscall.EPERM }
