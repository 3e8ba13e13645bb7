package daemon

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeSystemd is a manager of one service. It receives the service's notifications and stores its
// files.
type fakeSystemd struct {
	states chan string // notifications, except for statuses and what follows them

	mu       sync.Mutex // guards the fields below
	statuses []string
	alive    int // number of watchdog notifications
	store    []*os.File
}

func newFakeSystemd(t *testing.T) *fakeSystemd {
	f := &fakeSystemd{states: make(chan string, 8)}
	t.Cleanup(func() { closeFiles(f.store) })
	return f
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (f *fakeSystemd) send(message string, files []*os.File) error {
	var rest []string
	values := map[string]string{}
	for _, line := range strings.Split(message, "\n") {
		switch key, value, _ := strings.Cut(line, "="); key {
		case "STATUS", "WATCHDOG", "FDSTORE", "FDSTOREREMOVE", "FDNAME", "BARRIER":
			values[key] = value
		default:
			rest = append(rest, line)
		}
	}
	f.note(values, files)
	if len(rest) > 0 {
		f.states <- strings.Join(rest, "\n")
	}
	return nil
}

func (f *fakeSystemd) note(values map[string]string, files []*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := values["STATUS"]; ok {
		f.statuses = append(f.statuses, s)
	}
	if values["WATCHDOG"] != "" {
		f.alive++
	}
	if values["FDSTORE"] != "" {
		for _, file := range files {
			f.store = append(f.store, copyOf(file, values["FDNAME"]))
		}
	}
	if values["FDSTOREREMOVE"] != "" {
		var left []*os.File
		for _, file := range f.store {
			if file.Name() != values["FDNAME"] {
				left = append(left, file)
				continue
			}
			_ = file.Close()
		}
		f.store = left
	}
}

// copyOf returns a copy of a file with another descriptor.
func copyOf(f *os.File, name string) *os.File {
	raw, err := f.SyscallConn()
	if err != nil {
		panic(err)
	}
	var fd int
	if outer := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) }); outer != nil || err != nil {
		panic(fmt.Sprint(outer, err))
	}
	return os.NewFile(uintptr(fd), name)
}

// passed returns copies of the stored files, as a restarted service receives them.
func (f *fakeSystemd) passed() (files []*os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.store {
		files = append(files, copyOf(file, file.Name()))
	}
	return files
}

// names returns the names of the stored files.
func (f *fakeSystemd) names() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.store {
		names = append(names, file.Name())
	}
	return names
}

// heard returns the last status.
func (f *fakeSystemd) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.statuses) == 0 {
		return ""
	}
	return f.statuses[len(f.statuses)-1]
}

// fed returns the number of watchdog notifications.
func (f *fakeSystemd) fed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive
}
