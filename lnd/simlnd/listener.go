package simlnd

import (
	"net"
	"net/netip"
	"sync"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// listener is a socklnd.Listener. Its state is guarded by Fabric.mu.
type listener struct {
	h       *Host
	at      netip.AddrPort
	backlog int
	queue   []*stream
	closed  bool
	ready   sync.Cond
}

// Accept implements socklnd.Listener.
func (l *listener) Accept() (socklnd.Stream, error) {
	l.h.fabric.mu.Lock()
	defer l.h.fabric.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return nil, net.ErrClosed
		}
		l.ready.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	return s, nil
}

// Addr implements socklnd.Listener.
func (l *listener) Addr() netip.AddrPort { return l.at }

// Close implements socklnd.Listener. It resets streams that wait to be accepted.
func (l *listener) Close() error {
	f := l.h.fabric
	f.mu.Lock()
	if l.h.listeners[l.at] == l {
		delete(l.h.listeners, l.at)
	}
	again := l.closed && l.queue == nil
	l.closed = true
	orphans := l.queue
	l.queue = nil
	l.ready.Broadcast()
	f.mu.Unlock()
	for _, s := range orphans {
		s.c.Reset()
		_ = s.Close() // no caller has it
	}
	if again {
		return net.ErrClosed
	}
	return nil
}
