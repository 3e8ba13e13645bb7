package socklnd

import "sync"

// moved counts the bytes that connections have transferred.
type moved struct {
	sent, received uint64
	copied         uint64 // bytes of received payloads that were copied from the driver's buffer
}

func (m *moved) add(c *conn) {
	m.sent += c.sent.Load()
	m.received += c.received.Load()
	m.copied += c.copied.Load()
}

// ledger holds an interface's connections, from when they are registered with a peer until they are closed,
// and the sum of the byte counts of closed connections. Because a connection moves from one to the other
// under the lock, it is counted exactly once at any time, and no sum ever decreases. The send path does not
// use the ledger. The zero value is ready to use.
type ledger struct {
	mu    sync.Mutex         // guards the fields below
	conns map[*conn]struct{} // open connections
	past  moved              // sum over closed connections
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

// sum returns the number of open connections, and the bytes that open and closed connections together have
// transferred.
func (l *ledger) sum() (conns int, all moved) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = l.past
	for c := range l.conns {
		all.add(c)
	}
	return len(l.conns), all
}
