package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestStrerror(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EHOSTUNREACH: "No route to host",
		syscall.ECONNREFUSED: "Connection refused",
		syscall.ENETUNREACH:  "Network is unreachable",
		syscall.EIO:          "Input/output error",
		syscall.ETIMEDOUT:    "Connection timed out",
		syscall.ENOENT:       "No such file or directory",
	} {
		if got := Strerror(errno); got != want {
			t.Errorf("%d: %q, want %q", int(errno), got, want)
		}
	}
}

func TestFault(t *testing.T) {
	f := Fault{Code: CodePortInUse, Text: "port 988 is in use", Remedy: "stop it"}.Because(syscall.EADDRINUSE)
	if !errors.Is(f, syscall.EADDRINUSE) {
		t.Error("the cause is not in the chain")
	}
	if got, want := f.Error(), "port 988 is in use: address already in use [port-used]; stop it"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	want := "port 988 is in use [port-used]\n  cause:  address already in use\n  remedy: stop it\n"
	if got := f.Report(); got != want {
		t.Errorf("Report() = %q, want %q", got, want)
	}
	if got := FaultOf(fmt.Errorf("x: %w", f)); got != f {
		t.Errorf("FaultOf(wrapped) = %v", got)
	}
	if got := FaultOf(errors.New("boom")); got.Code != CodeInternal || got.Cause != "boom" {
		t.Errorf("FaultOf(other) = %+v", got)
	}
}

// Errno knows what system calls and contexts say; what it does not know is EIO.
func TestErrno(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want syscall.Errno
	}{
		"nil":      {nil, 0},
		"number":   {fmt.Errorf("connect: %w", os.NewSyscallError("connect", syscall.ECONNREFUSED)), syscall.ECONNREFUSED},
		"deadline": {fmt.Errorf("ping: %w", context.DeadlineExceeded), syscall.ETIMEDOUT},
		"timeout":  {os.ErrDeadlineExceeded, syscall.ETIMEDOUT},
		"given up": {context.Canceled, syscall.ECANCELED},
		"unknown":  {errors.New("what"), syscall.EIO},
	} {
		if got := Errno(tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
