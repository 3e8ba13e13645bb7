package systemd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// keptPrefix stands before the names of what the service has had kept: else a socket that a
// unit has made could not be told from it.
const keptPrefix = "kept-"

// Passed are the files that the manager has passed under a name, such as a socket unit's
// FileDescriptorName=. They are the caller's from now on.
func (m *Manager) Passed(name string) []*os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := m.received[name]
	delete(m.received, name)
	return files
}

// Kept are the files that an earlier life of the service has had kept under a name. They are
// the caller's from now on; the manager has them as well, until they are dropped.
func (m *Manager) Kept(name string) []*os.File { return m.Passed(keptPrefix + name) }

// Keep has the manager keep a copy of a file, and hand it over when the service is started
// anew, but not after it was stopped. It tells whether the manager has been asked to. The file
// stays the caller's. A socket that is kept must not be shut down, in whatever process: the
// manager drops what has hung up.
func (m *Manager) Keep(name string, f *os.File) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Keeps && m.send("FDSTORE=1\nFDNAME="+keptPrefix+name, []*os.File{f})
}

// Drop has the manager keep nothing under a name any more. It waits until that is so, or for
// some seconds: an address is free when the last copy of its socket is closed.
func (m *Manager) Drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(keptPrefix + name)
}

// drop needs mu.
func (m *Manager) drop(name string) {
	if m.send("FDSTOREREMOVE=1\nFDNAME="+name, nil) {
		m.await()
	}
}

// await waits until the manager has done what it was told: it closes the pipe then. mu is
// held.
func (m *Manager) await() {
	r, w, err := os.Pipe()
	if err != nil {
		return // nothing is lost but time
	}
	defer func() { _ = r.Close() }()
	sent := m.send("BARRIER=1", []*os.File{w})
	_ = w.Close()
	if sent && r.SetReadDeadline(time.Now().Add(sendPatience)) == nil {
		_, _ = r.Read(make([]byte, 1))
	}
}

// CloseRest closes the files that nobody has asked for: those that were kept are dropped, and
// the names of the others are returned, which a unit file is wrong about.
func (m *Manager) CloseRest() (unknown []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.received)) {
		for _, f := range m.received[name] {
			_ = f.Close()
		}
		if strings.HasPrefix(name, keptPrefix) {
			m.drop(name)
		} else {
			unknown = append(unknown, name)
		}
	}
	clear(m.received)
	return unknown
}
