package remote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// SocketName is the file name of the socket on which lnetd accepts programs.
const SocketName = "lnetd.sock"

// systemDir is the directory of the sockets of an lnetd that root runs. internal/lnetd/control/api defines
// the directories for other users, but programs cannot import it.
const systemDir = "/run/lnetd"

// FindSocket returns the default path of lnetd's socket. For root it is in /run/lnetd. For other users it is
// in $XDG_RUNTIME_DIR/lnetd, or in /tmp/lnetd-UID if that variable is not set. If that socket does not exist
// but the one in /run/lnetd does, FindSocket returns the latter.
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
