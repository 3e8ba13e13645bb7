package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replacement is a new file that replaces an existing one when it is complete. Until then, and if
// the disk is full, the old file stays. A file that is not a regular file, or in a directory where
// no file can be created, is overwritten in place.
type replacement struct {
	*os.File
	name string // the file to replace; empty if it is written in place
}

// replacing creates a replacement for a file, which need not exist.
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

// like sets the mode and, if permitted, the owner of the file to those in info. If info is nil, it
// sets the defaults of a new file.
func (r *replacement) like(info fs.FileInfo) error {
	if info == nil {
		return r.Chmod(0o644)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = r.Chown(int(s.Uid), int(s.Gid)) // only root may change the owner
	}
	return r.Chmod(info.Mode().Perm())
}

// keep replaces the old file. On an error the old file stays.
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

// drop discards the new file.
func (r *replacement) drop() {
	_ = r.Close()
	if r.name != "" {
		_ = os.Remove(r.Name())
	}
}
