package socklnd

import "sync"

// moved is what connections have moved, in bytes.
type moved struct {
	sent, received uint64
	copied         uint64 // of payloads that came
}

func (m *moved) add(c *conn) {
	m.sent += c.sent.Load()
	m.received += c.received.Load()
	m.copied += c.copied.Load()
}

// ledger knows an interface's connections, from when they are counted as a peer's until
// they are closed, and what those have moved that are closed: so each is counted once at
// any moment, and no sum goes back. Who sends does not come here. The zero value is ready.
type ledger struct {
	mu    sync.Mutex // guards the rest
	conns map[*conn]struct{}
	past  moved
}

func (l *ledger) enter(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = map[*conn]struct{}{}
	}
	l.conns[c] = struct{}{}
}

func (l *ledger) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.conns[c]; there {
		delete(l.conns, c)
		l.past.add(c)
	}
}

// sum is how many connections there are, and what all that there were have moved.
func (l *ledger) sum() (conns int, all moved) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = l.past
	for c := range l.conns {
		all.add(c)
	}
	return len(l.conns), all
}
