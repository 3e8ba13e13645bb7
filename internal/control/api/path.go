package api

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

const socketName = "control.sock"

// SystemRunDir is where root's lnetd has its sockets.
const SystemRunDir = "/run/lnetd"

// RunDir is the directory for lnetd's sockets: /run/lnetd for root, else
// $XDG_RUNTIME_DIR/lnetd, else /tmp/lnetd-UID.
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

// SharedRunDir is a user's directory where everybody has some.
func SharedRunDir(uid int, tmp string) string {
	return filepath.Join(tmp, "lnetd-"+strconv.Itoa(uid))
}

// DefaultSocket is where lnetd puts its control socket if it is not told.
func DefaultSocket() string { return filepath.Join(RunDir(), socketName) }

// FindSocket is where lnetdctl looks for lnetd if it is not told: at the
// default place, or, if there is nothing, at root's. See FindClient.
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
