package remote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// SocketName is what the socket is called in the directory of lnetd's sockets.
const SocketName = "lnetd.sock"

// systemDir is where root's lnetd has its sockets. Where others' are is what
// internal/control/api says, which programs cannot import.
const systemDir = "/run/lnetd"

// FindSocket is where lnetd is looked for if nobody says where it is: root looks in
// /run/lnetd, others in $XDG_RUNTIME_DIR/lnetd, or else /tmp/lnetd-UID, and if there is no
// such socket, in /run/lnetd.
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
