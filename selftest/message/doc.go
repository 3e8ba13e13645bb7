// Package message encodes and decodes the messages of LNet selftest. Each message, request or reply, has
// 160 bytes in its sender's byte order (selftest 1.1, 2).
//
// Each request and each reply has a struct. Append encodes it in the byte order that its header selects.
// Decode decodes a message of either byte order. Neither allocates, except for errors. A failed Decode
// leaves the struct unchanged.
//
// The client side of RPCs (package rpc), the services of a node, and consoles use this package. It has no
// goroutines and does not use the clock or do I/O.
package message
