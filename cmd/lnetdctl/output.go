package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// output is where a command writes what it collects: standard output, a character device, a FIFO, or a file that only the
// user can read.
type output struct {
	io.Writer
	file *replacement // nil for standard output
}

// create opens the output that name stands for; "-" is standard output. It does not overwrite a file unless force is set,
// and then the old file stays until keep is called. It refuses directories, symbolic links, block devices and sockets. It
// waits for a reader of a FIFO until ctx is done. The caller must call keep or drop.
func (p *program) create(ctx context.Context, name string, force bool) (output, error) {
	if name == "-" {
		return output{Writer: p.stdout}, nil
	}
	var r *replacement
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r, err = creating(name)
	case err != nil:
	case info.Mode().IsRegular() && force:
		r, err = replacingPrivately(name)
	case info.Mode().IsRegular():
		err = fmt.Errorf("%s exists; --force overwrites it", name)
	default:
		r, err = opening(ctx, name, info)
	}
	if err != nil {
		return output{}, err
	}
	return output{r, r}, nil
}

// creating creates the file name, which drop removes again.
func creating(name string) (*replacement, error) {
	const private = 0o600
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	return &replacement{f, name}, err
}

// replacingPrivately is like replacing for a regular file, but only the user can read the new file.
func replacingPrivately(name string) (*replacement, error) {
	dir, base := filepath.Split(name)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+base+".*")
	return &replacement{f, name}, err
}

// opening opens the FIFO or character device name, which info describes. It waits for a reader of a FIFO until ctx is done.
func opening(ctx context.Context, name string, info fs.FileInfo) (*replacement, error) {
	kinds := map[fs.FileMode]string{
		fs.ModeDir: "a directory", fs.ModeSymlink: "a symbolic link", fs.ModeSocket: "a socket", fs.ModeDevice: "a block device",
	}
	if kind, refused := kinds[info.Mode().Type()]; refused {
		return nil, fmt.Errorf("%s is %s", name, kind)
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() { // until a program reads the FIFO, or this program exits
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0)
		done <- opened{f, err}
	}()
	var o opened
	select {
	case o = <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("open %s: no program reads it: %w", name, context.Cause(ctx))
	}
	if o.err != nil {
		return nil, o.err
	}
	now, err := o.file.Stat()
	if err == nil && !os.SameFile(info, now) {
		err = fmt.Errorf("%s was replaced by another file", name)
	}
	if err != nil {
		_ = o.file.Close()
		return nil, err
	}
	return &replacement{File: o.file}, nil
}

// truncate removes what a file has after its first size bytes. Other outputs cannot be truncated.
func (o output) truncate(size int64) error {
	if o.file == nil || o.file.name == "" {
		return nil
	}
	return o.file.Truncate(size)
}

// keep completes the output. If it returns an error, the file that was to be overwritten stays.
func (o output) keep() error {
	if o.file == nil {
		return nil
	}
	return o.file.keep()
}

// drop removes a file, or lets the file stay that was to be overwritten.
func (o output) drop() {
	if o.file != nil {
		o.file.drop()
	}
}

// noFile prints an error about a file and returns the exit status.
func (p *program) noFile(err error) error {
	p.fail(nil, &api.Fault{
		Code: api.CodeFileUnwritable, Errno: -int(api.Errno(err)), Text: "cannot write the file: " + err.Error(),
	})
	return status(exitFailure)
}
