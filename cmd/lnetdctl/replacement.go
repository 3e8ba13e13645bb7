package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replacement is a new file that replaces an existing one when it is complete. Until then, and if writing fails,
// the old file stays. If the existing file is not a regular file, or no file can be created in its directory,
// the existing file is overwritten instead.
type replacement struct {
	*os.File
	name string // the file to replace; empty if the existing file is overwritten
}

// replacing creates a replacement for the file name, which need not exist. The caller must call keep or drop.
func replacing(name string) (*replacement, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		return &replacement{File: f}, err
	case err == nil:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir, base := filepath.Split(name)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+base+".*")
	if errors.Is(err, fs.ErrPermission) {
		f, err := os.Create(name)
		return &replacement{File: f}, err
	}
	if err != nil {
		return nil, err
	}
	r := &replacement{f, name}
	if err := r.like(info); err != nil {
		r.drop()
		return nil, err
	}
	return r, nil
}

// like gives the new file the mode of the old one and, if permitted, its owner. The argument info describes the
// old file. If it is nil, the new file gets the default mode.
func (r *replacement) like(info fs.FileInfo) error {
	if info == nil {
		return r.Chmod(0o644)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = r.Chown(int(s.Uid), int(s.Gid)) // only root may change the owner
	}
	return r.Chmod(info.Mode().Perm())
}

// keep closes the new file and replaces the old one by it. If keep returns an error, the old file stays.
func (r *replacement) keep() error {
	if r.name == "" {
		return r.Close()
	}
	err := errors.Join(r.Sync(), r.Close())
	if err == nil {
		err = os.Rename(r.Name(), r.name)
	}
	if err != nil {
		_ = os.Remove(r.Name())
	}
	return err
}

// drop closes and removes the new file.
func (r *replacement) drop() {
	_ = r.Close()
	if r.name != "" {
		_ = os.Remove(r.Name())
	}
}
