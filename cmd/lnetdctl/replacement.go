package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// replacement is a file that is to stand in another one's place when all of it is written:
// until then, and if the disk is full, there is the old one. What is no regular file is
// written as it is.
type replacement struct {
	*os.File
	name string // of the file whose place it takes; empty: it is that one
}

// replacing begins a replacement for a file, which need not exist.
func replacing(name string) (*replacement, error) {
	mode := fs.FileMode(0o666)
	switch info, err := os.Stat(name); {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		return &replacement{File: f}, err
	case err == nil:
		mode = info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	dir, base := filepath.Split(name)
	f, err := os.OpenFile(dir+"."+base+"."+strconv.Itoa(os.Getpid()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	return &replacement{f, name}, err
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
