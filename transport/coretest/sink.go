package coretest

import (
	"sync"

	"github.com/lnetd/lnetd/transport"
)

// Sink is a completion.Sink that stores all completions. Its fields may be read once no more completions
// arrive.
type Sink struct {
	mu                    sync.Mutex
	Pushed, TMCompletions []transport.Completion
}

// Push implements completion.Sink.
func (s *Sink) Push(c transport.Completion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Pushed = append(s.Pushed, c)
}

// PushTM implements completion.Sink.
func (s *Sink) PushTM(c transport.Completion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.TMCompletions = append(s.TMCompletions, c)
	return true
}
