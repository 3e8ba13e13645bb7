// Package rdmacore implements package verbs with libibverbs and librdmacm. A thin shim in C (o2.c) wraps
// calls and flattens structures. The Go code owns the objects and waits (o2iblnd 19). It is built with
// the tag o2ib, and Open loads the libraries. Without the tag, Open fails with verbs.ErrNotBuilt.
//
// The netpoller does all waiting, on duplicates of the file descriptors of event channels, completion
// channels and devices. C code uses memory only during a call. It keeps no pointers and never blocks. An
// object's lock prevents its destruction during its calls: every call holds the lock for reading, and
// destruction holds it for writing.
//
// The package starts no goroutine.
package rdmacore
