package job

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// leaver is MPI as the driver sees it. Beside the driver's requests it has those with which clients tell proxies that
// they leave: one message without content from each client to each proxy, with a tag that the driver does not use.
type leaver struct {
	boundary.MPI
	comm    boundary.Comm
	waiting int           // clients that have not left; in proxies only
	left    chan struct{} // closed when all clients have left
	sending int           // messages of this client that are not sent
}

// ownID is the low half of the IDs of the leaver's requests. In IDs of the driver it is the index of a request, which is
// smaller.
const ownID = 1<<32 - 1

// tag returns the tag of the leaver's messages, which is the largest one that the driver could use.
func (l *leaver) tag() int { return min(l.MPI.MaxTag(), protocol.MaxTag) }

// MaxTag returns the largest tag for the driver.
func (l *leaver) MaxTag() int { return l.tag() - 1 }

// Poll does not report requests of the leaver.
func (l *leaver) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	n, err := l.MPI.Poll(done, wait)
	rest := done[:0]
	for _, d := range done[:n] {
		switch {
		case d.ID&ownID != ownID:
			rest = append(rest, d)
		case d.Err != nil:
			err = d.Err
		case l.sending > 0:
			l.sending--
		default:
			l.waiting--
			err = l.receive()
		}
	}
	return len(rest), err
}

// receive starts to receive the message of the next client. If all have left, it closes left.
func (l *leaver) receive() error {
	if l.waiting == 0 {
		close(l.left)
		return nil
	}
	return l.comm.Receive(boundary.Any, l.tag(), nil, ownID)
}

// leave tells proxies that this client leaves, and waits until the messages are sent.
func (l *leaver) leave(t *Table) error {
	for _, m := range t.members {
		if !m.Proxy {
			continue
		}
		if err := l.comm.Send(m.Rank, l.tag(), nil, uint64(m.Rank)<<32|ownID); err != nil {
			return err
		}
		l.sending++
	}
	return l.drain(func() bool { return l.sending == 0 })
}

// drain polls until the condition is true. Requests of the driver that are still left complete meanwhile.
func (l *leaver) drain(until func() bool) error {
	done := make([]boundary.Done, 16)
	for !until() {
		if _, err := l.Poll(done, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// watch makes the leaver of a proxy wait for the clients.
func (l *leaver) watch(t *Table) error {
	l.waiting = len(slices.DeleteFunc(slices.Clone(t.members), func(m Member) bool { return m.Proxy }))
	return l.receive()
}
