// Package ports finds TCP ports for processes that a measurement or a test starts.
package ports

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Free searches portCount ports from firstPort on. The kernel does not give these to connections, and to listeners only
// on request. portStride is the distance between the ports with which processes with successive IDs begin.
const (
	firstPort, portCount = 10000, 22000
	portStride           = 61
)

// tried counts the ports that Free has tried in this process.
var tried atomic.Uint32

// Free returns the first of n successive TCP ports that are free at all given addresses. Calls in this process return
// different ports, and so do those of other processes at about the same time.
func Free(n int, addrs ...string) (int, error) {
	for range 1000 {
		offset := portStride*uint32(os.Getpid()) + tried.Add(uint32(n)) - uint32(n)
		first := int(firstPort + offset%portCount)
		free := true
		for port := first; port < first+n && free; port++ {
			free = isFree(port, addrs)
		}
		if free {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d successive free ports on %v", n, addrs)
}

// isFree reports whether a TCP port is free at all given addresses.
func isFree(port int, addrs []string) bool {
	for _, addr := range addrs {
		l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
