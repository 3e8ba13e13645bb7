package proxies

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figures are the resources of this process, which has lnetd's side of the proxies.
type figures struct {
	// memfds, sockets and events are numbers of descriptors, maps those of mappings of memory that is shared.
	memfds, sockets, events, maps int
	goroutines                    int
	live, rss                     uint64 // bytes of the heap that are reachable, and of the process
}

func (f figures) String() string {
	return fmt.Sprintf("%d memfds, %d sockets, %d eventfds, %d maps of memfds, %d goroutines, live heap %.1f MiB, RSS %.1f MiB",
		f.memfds, f.sockets, f.events, f.maps, f.goroutines, float64(f.live)/(1<<20), float64(f.rss)/(1<<20))
}

// takeFigures returns the figures after a garbage collection.
func takeFigures(t testing.TB) (f figures) {
	t.Helper()
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	f.live, f.goroutines = live[0].Value.Uint64(), runtime.NumGoroutine()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fd)
		switch {
		case strings.HasPrefix(to, "/memfd:lnetd"):
			f.memfds++
		case strings.HasPrefix(to, "socket:"):
			f.sockets++
		case strings.Contains(to, "[eventfd]"):
			f.events++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	f.maps = strings.Count(string(maps), "/memfd:lnetd")
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseUint(strings.Fields(string(statm))[1], 10, 64)
	f.rss = pages * uint64(os.Getpagesize())
	return f
}

// wantUnchanged waits until the process uses no more than before. Sockets and goroutines of connections that honest
// traffic opens do not count as much.
func wantUnchanged(t testing.TB, before figures) {
	t.Helper()
	const few = 4
	var now figures
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now = takeFigures(t)
		if now.memfds <= before.memfds && now.maps <= before.maps && now.events <= before.events && now.sockets <= before.sockets &&
			now.goroutines <= before.goroutines+few && now.live <= before.live+before.live/4+8<<20 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("resources are left")
			break
		}
	}
	t.Logf("before: %v", before)
	t.Logf("after:  %v", now)
}

// processorTime returns the time that a process has used.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}
