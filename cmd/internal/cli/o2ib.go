package cli

import (
	"os"
	"path/filepath"
	"syscall"
)

// ExecO2IB replaces this process by the program of the same name with the driver for RDMA, which the package
// lnetd-o2ib installs. The new program has the same arguments, environment, descriptors and process ID.
// ExecO2IB returns only if the package is not installed or its program cannot be executed.
func ExecO2IB() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	//nolint:gosec // The path depends only on where this program is installed.
	_ = syscall.Exec(o2ibProgram(self), os.Args, os.Environ())
}

// o2ibProgram returns the path of the program with the driver for RDMA. The path of this program is self: for
// /usr/bin/lnetd, o2ibProgram returns /usr/libexec/lnetd/lnetd.
func o2ibProgram(self string) string {
	return filepath.Join(filepath.Dir(self), "..", "libexec", "lnetd", filepath.Base(self))
}
