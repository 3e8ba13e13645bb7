// Package tmhost is the common part of the tools that test transfer machines. A Host is a domain: over a
// node in this process, over a network in memory, or of a running lnetd. A Loop is a transfer machine
// with a goroutine that delivers its events and executes functions of the program.
//
// A Loop has that goroutine from Start to Close, in addition to the goroutine of the transfer machine.
package tmhost
