//go:build !mpi || !cgo

package shim

import "github.com/lnetd/lnetd/lnd/mpilnd/boundary"

// Open returns boundary.ErrNotBuilt, which describes how to build with support for MPI.
func Open(string, Options) (boundary.MPI, error) { return nil, boundary.ErrNotBuilt }
