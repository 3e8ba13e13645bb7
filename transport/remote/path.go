package remote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// SocketName is the name of the socket in the directory of lnetd's sockets.
const SocketName = "lnetd.sock"

// systemDir is the directory of the sockets of root's lnetd. The directories of other users are defined in
// internal/lnetd/control/api, which programs cannot import.
const systemDir = "/run/lnetd"

// FindSocket returns the default path of lnetd's socket. For root it is in /run/lnetd. For other users it
// is in $XDG_RUNTIME_DIR/lnetd, or /tmp/lnetd-UID if that variable is not set. If that socket does not
// exist, the one in /run/lnetd is used, if it exists.
func FindSocket() string {
	return findSocket(systemDir, os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
}

func findSocket(system string, uid int, xdg, tmp string) string {
	root := filepath.Join(system, SocketName)
	if uid == 0 {
		return root
	}
	dir := filepath.Join(tmp, "lnetd-"+strconv.Itoa(uid))
	if filepath.IsAbs(xdg) {
		dir = filepath.Join(xdg, "lnetd")
	}
	own := filepath.Join(dir, SocketName)
	if _, err := os.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(root); err == nil {
			return root
		}
	}
	return own
}
