// Package tracing records what the kernel does with threads: context switches, wake-ups and system calls, with
// times in nanoseconds. It uses four tracepoints of the kernel, on all processors, through perf_event_open. Only
// root, and processes with CAP_PERFMON that can read tracefs, may use it.
//
// Open prepares a recording, Start starts it, and Stop ends it and returns the events. The kernel writes the
// events to memory that it shares with this process; they are read only after the end. The package starts no
// goroutines.
package tracing
