// Package message encodes and decodes the messages of LNet selftest. Each message, a request or a reply, has
// 160 bytes in the byte order of its sender (selftest 1.1, 2).
//
// Each type of request or reply has a struct. Append encodes it in the byte order that its Header selects.
// Decode decodes a message of either byte order. Neither allocates, except for errors. If Decode fails, it
// leaves the struct unchanged.
//
// Package rpc (the client side of RPCs), the services of a node, and consoles use this package. It starts no
// goroutines, does no I/O and does not use the clock.
package message
