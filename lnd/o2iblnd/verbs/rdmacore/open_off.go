//go:build !o2ib || !cgo

package rdmacore

import "github.com/lnetd/lnetd/lnd/o2iblnd/verbs"

// Open returns verbs.ErrNotBuilt, which describes how to build with RDMA support.
func Open() (verbs.Provider, error) { return nil, verbs.Wrap(verbs.ErrNotBuilt, "open") }
