package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// makeRunDir creates the directory of the socket if it does not exist. If dir is the default directory
// inside /tmp, where all users can write, it must belong to this user, and only this user may be able to
// write to it. A directory that the operator has chosen is not checked.
func makeRunDir(dir string) error {
	mode := fs.FileMode(0o700)
	if dir == api.SystemRunDir {
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
	if dir != api.SharedRunDir(os.Geteuid(), os.TempDir()) {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that belongs to this user and that only this user can write to", dir)
	}
	return nil
}
