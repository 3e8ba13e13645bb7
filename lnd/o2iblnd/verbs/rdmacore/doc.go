// Package rdmacore is package verbs over libibverbs and librdmacm: a thin shim in C
// (o2.c) that wraps calls and flattens structures, and the Go around it that owns objects
// and waits (o2iblnd 19). It is built with the tag o2ib, and loads the libraries when Open is called;
// without the tag Open fails with verbs.ErrNotBuilt.
//
// All waiting is the netpoller's, on duplicates of the file descriptors of event
// channels, completion channels and devices. C gets memory for the time of a call, never
// keeps a pointer, and never blocks. An object's lock keeps it from being destroyed
// during its calls; it is held across them, and shared by all but destruction.
//
// The package starts no goroutine.
package rdmacore
