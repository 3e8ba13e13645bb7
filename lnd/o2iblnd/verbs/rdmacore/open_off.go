//go:build !o2ib || !cgo

package rdmacore

import "github.com/lnetd/lnetd/lnd/o2iblnd/verbs"

// Open fails with verbs.ErrNotBuilt, which says how to get there.
func Open() (verbs.Provider, error) { return nil, verbs.Wrap(verbs.ErrNotBuilt, "open") }
