// Package rdmacore implements package verbs with libibverbs and librdmacm. A thin shim in C (o2.c) wraps the
// libraries' functions and flattens their structures. The Go code owns the objects and does all waiting
// (o2iblnd 19). The package needs the build tag o2ib; Open then loads the libraries. Without the tag, Open
// returns verbs.ErrNotBuilt.
//
// All waiting is done by Go's netpoller, on duplicates of the file descriptors of event channels, completion
// channels and devices. C code uses Go's memory only during a call. It keeps no pointers and never blocks.
// Every call on an object holds the object's lock for reading, and its destruction holds the lock for writing,
// so that no object is destroyed during a call.
//
// The package starts no goroutine.
package rdmacore
