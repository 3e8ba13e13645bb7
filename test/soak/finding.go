package soak

import (
	"fmt"
	"sync"
)

// findings are the violations that one process has found. It counts all of them, and keeps the texts of
// the first findingsKept. It is safe for concurrent use.
type findings struct {
	mu    sync.Mutex // guards count and texts
	count int
	texts []string
}

const findingsKept = 30

func (f *findings) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if len(f.texts) < findingsKept {
		f.texts = append(f.texts, fmt.Sprintf(format, args...))
	}
}

func (f *findings) list() (count int, texts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, append([]string(nil), f.texts...)
}
