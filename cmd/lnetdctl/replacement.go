package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replacement is a file that is to stand in another one's place when all of it is written:
// until then, and if the disk is full, there is the old one. What is no regular file, or in
// a directory that takes no other, is written as it is.
type replacement struct {
	*os.File
	name string // of the file whose place it takes; empty: it is that one
}

// replacing begins a replacement for a file, which need not exist.
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

// like gives the file the mode and, as far as that may be, the owner of another; nil: those
// of a new one.
func (r *replacement) like(info fs.FileInfo) error {
	if info == nil {
		return r.Chmod(0o644)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = r.Chown(int(s.Uid), int(s.Gid)) // only root may
	}
	return r.Chmod(info.Mode().Perm())
}

// keep puts the file in its place. If that fails there is the old one.
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

// drop leaves the old file.
func (r *replacement) drop() {
	_ = r.Close()
	if r.name != "" {
		_ = os.Remove(r.Name())
	}
}
