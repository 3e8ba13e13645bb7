package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	socketName    = "control.sock"
	systemRunDir  = "/run/lnetd"
	socketPathMax = 107 // sun_path without its terminator
)

// RunDir is the directory for lnetd's sockets: /run/lnetd for root, else
// $XDG_RUNTIME_DIR/lnetd, else /tmp/lnetd-UID.
func RunDir() string {
	return runDir(os.Geteuid(), os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
}

func runDir(uid int, xdg, tmp string) string {
	switch {
	case uid == 0:
		return systemRunDir
	case filepath.IsAbs(xdg):
		return filepath.Join(xdg, "lnetd")
	}
	return sharedRunDir(uid, tmp)
}

// sharedRunDir is a user's directory where everybody has some.
func sharedRunDir(uid int, tmp string) string {
	return filepath.Join(tmp, "lnetd-"+strconv.Itoa(uid))
}

// DefaultSocket is where lnetd puts its control socket if it is not told.
func DefaultSocket() string { return filepath.Join(RunDir(), socketName) }

// FindSocket is where lnetdctl looks for lnetd if it is not told: at the
// default place, or, if there is nothing, at root's. See FindClient.
func FindSocket() string {
	own := DefaultSocket()
	if _, err := os.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		system := filepath.Join(systemRunDir, socketName)
		if _, err := os.Lstat(system); err == nil {
			return system
		}
	}
	return own
}

// makeRunDir makes the socket's directory if it is missing. The default one in
// a place where anybody may write must turn out to be our own; what an operator
// chose is the operator's business.
func makeRunDir(dir string) error {
	mode := fs.FileMode(0o700)
	if dir == systemRunDir {
		mode = 0o755
	}
	err := os.Mkdir(dir, mode)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(dir, mode)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if dir != sharedRunDir(os.Geteuid(), os.TempDir()) {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory of our own that nobody else may write to", dir)
	}
	return nil
}
