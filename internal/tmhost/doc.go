// Package tmhost is what the tools that try transfer machines stand on: a Host, which is a
// domain on a node of its own over TCP, or in memory, or of an lnetd; and a Loop, which is a transfer
// machine with the goroutine that delivers its events and does the program's work.
//
// A Loop has that goroutine, besides the transfer machine's worker, from Start to Close.
package tmhost
