package client

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// trusted returns a function that reports whether the client may use a daemon that runs as the user uid and
// listens at path. It may if the user is root or the caller's user or, in the directory api.SystemRunDir, the
// owner of that directory.
func trusted(path string) func(uid int) bool {
	if filepath.Dir(path) != api.SystemRunDir {
		return rootsOrOwn
	}
	return func(uid int) bool { return rootsOrOwn(uid) || uid == ownerOf(api.SystemRunDir) }
}

// ownerOf returns the user that owns a directory. It returns -1 if other users can write to the directory, or
// if a user other than root could have created it, because the owner cannot be trusted then.
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

// ownWritable returns the owner of a directory. It returns false if other users can write to the directory, or
// if it does not exist.
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

// rootsOrOwn reports whether uid is root or the caller's user.
func rootsOrOwn(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// foreignError is the error of a socket at a default path on which a user listens that cannot be trusted.
type foreignError struct{ owner api.Process }

func (e *foreignError) Error() string {
	return "it does not belong to root, the caller or the lnetd of the system, but to " + e.owner.String()
}

func (e *foreignError) Unwrap() error { return syscall.EPERM }
