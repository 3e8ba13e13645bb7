package systemd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// keptPrefix is the prefix of the names of stored descriptors. It separates them from sockets that
// a socket unit passes.
const keptPrefix = "kept-"

// Passed returns the files that the manager has passed under name, such as a socket unit's
// FileDescriptorName=. The caller owns them.
func (m *Manager) Passed(name string) []*os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := m.received[name]
	delete(m.received, name)
	return files
}

// Kept returns the files that an earlier run of the service has stored under name. The caller owns
// them. The manager holds copies until Drop is called.
func (m *Manager) Kept(name string) []*os.File { return m.Passed(keptPrefix + name) }

// Keep asks the manager to store a copy of f and pass it to the service after a restart, but not
// after a stop. It reports whether the request was sent. The caller still owns f. No process may
// shut down a stored socket, because the manager removes descriptors that have hung up.
func (m *Manager) Keep(name string, f *os.File) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Keeps && m.send("FDSTORE=1\nFDNAME="+keptPrefix+name, []*os.File{f})
}

// Drop removes the files stored under name. It waits, for some seconds at most, until the manager
// has closed them: an address is free only after the last copy of its socket is closed.
func (m *Manager) Drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(keptPrefix + name)
}

// drop removes the files with the full name. The caller holds m.mu.
func (m *Manager) drop(name string) {
	if m.send("FDSTOREREMOVE=1\nFDNAME="+name, nil) {
		m.await()
	}
}

// await waits until the manager has processed all earlier messages, which it signals by closing a
// pipe. The caller holds m.mu.
func (m *Manager) await() {
	r, w, err := os.Pipe()
	if err != nil {
		return // the caller only does not wait
	}
	defer func() { _ = r.Close() }()
	sent := m.send("BARRIER=1", []*os.File{w})
	_ = w.Close()
	if sent && r.SetReadDeadline(time.Now().Add(sendPatience)) == nil {
		_, _ = r.Read(make([]byte, 1))
	}
}

// CloseRest closes the files that were not requested. It removes stored ones from the manager. It
// returns the names of the others, which the unit files pass by mistake.
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
