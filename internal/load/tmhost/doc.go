// Package tmhost is the basis of the tools that test transfer machines. A Host is a domain on its own
// node over TCP, in memory, or of an lnetd. A Loop is a transfer machine with a goroutine that delivers
// its events and does the program's work.
//
// A Loop has that goroutine from Start to Close, in addition to the worker of the transfer machine.
package tmhost
