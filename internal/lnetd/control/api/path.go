package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

const socketName = "control.sock"

// SystemRunDir is the directory for the sockets of root's lnetd.
const SystemRunDir = "/run/lnetd"

// RunDir returns the directory for lnetd's sockets: /run/lnetd for root, otherwise
// $XDG_RUNTIME_DIR/lnetd or, without that variable, /tmp/lnetd-UID.
func RunDir() string {
	return runDir(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
}

func runDir(uid int, xdg, tmp string) string {
	switch {
	case uid == 0:
		return SystemRunDir
	case filepath.IsAbs(xdg):
		return filepath.Join(xdg, "lnetd")
	}
	return SharedRunDir(uid, tmp)
}

// SharedRunDir returns a user's run directory inside tmp, which all users share.
func SharedRunDir(uid int, tmp string) string {
	return filepath.Join(tmp, "lnetd-"+strconv.Itoa(uid))
}

// DefaultSocket returns the default path of lnetd's control socket.
func DefaultSocket() string { return filepath.Join(RunDir(), socketName) }

// FindSocket returns the path at which lnetdctl looks for lnetd by default: the default path, or
// root's path if the default one does not exist. See client.Find.
func FindSocket() string {
	own := DefaultSocket()
	if _, err := os.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		system := filepath.Join(SystemRunDir, socketName)
		if _, err := os.Lstat(system); err == nil {
			return system
		}
	}
	return own
}
