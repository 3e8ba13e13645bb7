package daemontest

import (
	"bytes"
	"sync"
)

// Log is a log that may be read while it is written. The zero value is empty.
type Log struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what has been written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
