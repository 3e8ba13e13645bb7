package tracing

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotPermitted is returned if this process is not allowed to use tracepoints, or if the kernel has none.
var ErrNotPermitted = errors.New("tracepoints of the kernel cannot be used")

// traceFS is a directory with the kernel's tracefs.
type traceFS struct{ fd int }

// openTraceFS opens tracefs where it is mounted. If it is not mounted, it opens an instance that is visible only
// to this process. The caller must close it.
func openTraceFS() (*traceFS, error) {
	for _, dir := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if _, err := os.Stat(filepath.Join(dir, "events")); err != nil {
			continue
		}
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			return &traceFS{fd}, nil
		}
	}
	fd, err := mountDetached()
	if err != nil {
		return nil, fmt.Errorf("%w: tracefs is not mounted: %w", ErrNotPermitted, err)
	}
	return &traceFS{fd}, nil
}

// mountDetached creates an instance of tracefs that is not mounted anywhere, and returns its directory.
func mountDetached() (int, error) {
	fs, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer func() { _ = unix.Close(fs) }()
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	dir, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	return dir, os.NewSyscallError("fsmount", err)
}

func (f *traceFS) close() { _ = unix.Close(f.fd) }

// read returns the content of a file, whose name is relative to the directory.
func (f *traceFS) read(name string) ([]byte, error) {
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s of tracefs: %w", ErrNotPermitted, name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// Find returns the tracepoint with a name such as raw_syscalls/sys_enter. It returns ErrNotPermitted if this
// process is not allowed to use tracepoints.
func Find(name string) (*Tracepoint, error) {
	fs, err := openTraceFS()
	if err != nil {
		return nil, err
	}
	defer fs.close()
	return fs.find(name)
}

func (f *traceFS) find(name string) (*Tracepoint, error) {
	text, err := f.read("events/" + name + "/format")
	if err != nil {
		return nil, err
	}
	return parseFormat(name, text)
}
