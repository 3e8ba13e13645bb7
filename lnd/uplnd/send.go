package uplnd

import (
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// sending is a message that the proxy is to send, or has begun to.
type sending struct {
	message *lnd.Tx
	offset  uint64 // of the payload's buffer
	length  int    // of the payload
}

// send passes a message to the proxy (UP-5). If no buffer is free for its peer, or the proxy has as many messages
// as it may have, the message waits. Messages to one peer keep their order.
func (p *proxyEnd) send(m *lnd.Tx) {
	p.mu.Lock()
	var s sending
	reserved := false
	gone := p.cause != nil
	if !gone {
		p.arm(watchPeriod)
		if !p.draining && !p.waits(m.To.NID) {
			s, reserved = p.reserve(m)
		}
		if !reserved {
			p.queue(m)
		}
	}
	p.mu.Unlock()
	switch {
	case gone:
		p.ni.fail(m, lnd.StatusRemoteDropped, lnd.ErrUnreachable)
	case reserved:
		p.commit(s)
	}
}

// waits reports whether a message to a peer waits. p.mu is held.
func (p *proxyEnd) waits(peer lnet.NID) bool {
	return slices.ContainsFunc(p.waiting, func(m *lnd.Tx) bool { return m.To.NID == peer })
}

// queue makes a message wait: an urgent one before others. p.mu is held.
func (p *proxyEnd) queue(m *lnd.Tx) {
	k := len(p.waiting)
	if m.Urgent {
		for k > 0 && !p.waiting[k-1].Urgent {
			k--
		}
	}
	p.waiting = slices.Insert(p.waiting, k, m)
	p.ni.count.queued.Add(1)
}

// reserve allocates the buffer of a message. If it returns true, the caller must call commit, without p.mu,
// which is held now. A peer that has buffers gets another one only if its buffers are then not larger than the
// memory that remains free. So peers that do not answer leave some for the others.
func (p *proxyEnd) reserve(m *lnd.Tx) (s sending, ok bool) {
	if p.sends.Len()+p.filling >= p.ni.server.config.maxSends() {
		return s, false
	}
	s = sending{message: m, length: m.Payload.Length}
	if s.length > 0 {
		size, used := protocol.BufferSize(s.length), p.used[m.To.NID]
		if used > 0 && used+size > p.here.Free()-size {
			return s, false
		}
		if s.offset, ok = p.here.Get(s.length); !ok {
			return s, false
		}
		p.used[m.To.NID] = used + size
	}
	p.users++
	p.filling++
	return s, true
}

// commit copies the payload to its buffer and orders the proxy to send the message.
func (p *proxyEnd) commit(s sending) {
	m := s.message
	vouched := p.ni.config.Upper.Vouched(m.To.NID)
	err := p.copyPayload(s.length, func() { m.Payload.CopyTo(p.bytes(s.offset, s.length)) })
	p.mu.Lock()
	p.filling--
	status := lnd.StatusRemoteDropped
	switch {
	case err != nil:
		status = lnd.StatusLocalError
	case p.cause != nil:
		err = lnd.ErrUnreachable
	default:
		p.put(&protocol.Entry{
			Op: protocol.Send, Handle: p.sends.Add(s), Peer: m.To, Header: m.Header, Urgent: m.Urgent, More: m.More,
			Length: uint32(s.length), Offset: s.offset, Vouched: vouched,
		})
	}
	if err != nil {
		p.release(s)
	} else {
		p.unuse()
	}
	p.unlock()
	if err != nil {
		p.ni.fail(m, status, err)
		p.mu.Lock()
		p.unuse()
		p.mu.Unlock()
	}
}

// release frees the buffer of a message. p.mu is held.
func (p *proxyEnd) release(s sending) {
	if s.length == 0 {
		return
	}
	p.here.Put(s.offset, s.length)
	peer := s.message.To.NID
	if p.used[peer] -= protocol.BufferSize(s.length); p.used[peer] == 0 {
		delete(p.used, peer)
	}
}

// drain passes messages that wait to the proxy while there is room, those to each peer in their order.
func (p *proxyEnd) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return
	}
	p.draining = true
	for p.cause == nil {
		s, ok := p.reserveWaiting()
		if !ok {
			break
		}
		p.mu.Unlock()
		p.commit(s)
		p.mu.Lock()
	}
	p.draining = false
}

// reserveWaiting removes the first of the waiting messages that can be reserved, and reserves it. p.mu is held.
func (p *proxyEnd) reserveWaiting() (s sending, ok bool) {
	var blocked []lnet.NID
	for k, m := range p.waiting {
		if slices.Contains(blocked, m.To.NID) {
			continue
		}
		if s, ok = p.reserve(m); ok {
			p.waiting = slices.Delete(p.waiting, k, k+1)
			return s, true
		}
		blocked = append(blocked, m.To.NID)
	}
	return s, false
}

// sent handles a report that the proxy needs a message no more.
func (p *proxyEnd) sent(e *protocol.Entry) error {
	p.mu.Lock()
	s, ok := p.sends.Remove(e.Handle)
	if ok {
		p.release(s)
		if e.Status == lnd.StatusOK {
			p.notePeer(s.message.To)
		}
	}
	p.mu.Unlock()
	if !ok {
		return violation("it reports that message %#x was sent, which it does not have", e.Handle)
	}
	m := s.message
	event := peering.Event{Kind: peering.OwnEvents, Subject: m}
	if e.Status == lnd.StatusOK {
		p.ni.count.sent.Add(1)
		p.traffic.sent.Add(1)
		p.traffic.sentBytes.Add(uint64(m.Payload.Length))
	} else {
		p.traffic.failed.Add(1)
		event.Err = failure("send", m.To.NID, e.Status, e.Cause.Err(e.Text))
	}
	p.ni.out.Add(event)
	return nil
}

// recall takes back messages that wait, and asks the proxy for those that it has.
func (p *proxyEnd) recall(peer lnet.NID, match func(m *lnd.Tx) bool) {
	p.mu.Lock()
	wanted := func(m *lnd.Tx) bool { return (peer.IsZero() || m.To.NID == peer) && match(m) }
	back := p.removeWaiting(wanted, lnd.StatusLocalInterrupt, lnd.ErrRecalled)
	p.sends.All(func(handle uint64, s sending) {
		if wanted(s.message) {
			p.put(&protocol.Entry{Op: protocol.Recall, Handle: handle})
		}
	})
	p.unlock()
	p.ni.out.Add(back...)
}

// disconnect fails messages to a peer that wait, and makes the proxy close its connections to it.
func (p *proxyEnd) disconnect(peer lnet.NID) {
	p.mu.Lock()
	failed := p.removeWaiting(func(m *lnd.Tx) bool { return m.To.NID == peer }, lnd.StatusLocalAborted, lnd.ErrDisconnected)
	delete(p.peers, peer)
	p.put(&protocol.Entry{Op: protocol.Disconnect, Peer: lnet.ProcessID{NID: peer}})
	p.unlock()
	p.ni.out.Add(failed...)
}

// removeWaiting removes messages that wait, and returns the events that fail them. p.mu is held.
func (p *proxyEnd) removeWaiting(match func(m *lnd.Tx) bool, s lnd.Status, err error) (failed []peering.Event) {
	p.waiting = slices.DeleteFunc(p.waiting, func(m *lnd.Tx) bool {
		if !match(m) {
			return false
		}
		failed = append(failed, failedSend(m, s, err))
		return true
	})
	return failed
}
