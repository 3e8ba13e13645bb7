//go:build !linux

package tmhost

import "runtime"

// yield lets other goroutines run, which is as near as this system comes to threads.
func yield() { runtime.Gosched() }
