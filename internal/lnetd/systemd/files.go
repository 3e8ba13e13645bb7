package systemd

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// keptPrefix is the prefix of the names under which systemd stores descriptors for this service. It
// distinguishes them from sockets that a socket unit passes.
const keptPrefix = "kept-"

// Passed returns the files that the manager has passed to this process under a name, such as the
// FileDescriptorName= of a socket unit. The caller must close them. A second call returns nothing.
func (m *Manager) Passed(name string) []*os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := m.received[name]
	delete(m.received, name)
	return files
}

// Kept returns the files that an earlier run of the service has stored under a name. The caller must close
// them. The manager has further copies until Drop is called. A second call returns nothing.
func (m *Manager) Kept(name string) []*os.File { return m.Passed(keptPrefix + name) }

// Keep asks the manager to store a copy of f under a name and to pass it to the service after a restart, but
// not after a stop. It reports whether the request was sent. The caller must still close f. No process may shut
// down a stored socket, because the manager discards a socket that was shut down.
func (m *Manager) Keep(name string, f *os.File) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Keeps && m.send("FDSTORE=1\nFDNAME="+keptPrefix+name, []*os.File{f})
}

// Drop asks the manager to discard the files that it stores under a name. It waits for at most some seconds
// until the manager has closed them, because the address of a socket can be used again only after the last copy
// of the socket is closed.
func (m *Manager) Drop(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(keptPrefix + name)
}

// drop does what Drop does. The name includes the prefix. The caller holds m.mu.
func (m *Manager) drop(name string) {
	if m.send("FDSTOREREMOVE=1\nFDNAME="+name, nil) {
		m.await()
	}
}

// await waits until the manager has processed all earlier messages, for at most sendPatience. The manager
// signals this by closing a pipe. The caller holds m.mu.
func (m *Manager) await() {
	r, w, err := os.Pipe()
	if err != nil {
		return // without a pipe, await cannot wait
	}
	defer func() { _ = r.Close() }()
	sent := m.send("BARRIER=1", []*os.File{w})
	_ = w.Close()
	if sent && r.SetReadDeadline(time.Now().Add(sendPatience)) == nil {
		_, _ = r.Read(make([]byte, 1))
	}
}

// CloseRest closes the files that were passed to this process but not requested by Passed or Kept. It asks the
// manager to discard those that it stores. It returns the names of the others, which socket units pass by
// mistake.
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
