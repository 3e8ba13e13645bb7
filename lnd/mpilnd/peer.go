package mpilnd

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// peer is another process.
type peer struct {
	d  *Driver
	at Place
	id lnet.ProcessID

	// These fields outlive interfaces, since requests and messages of MPI do.
	lastLink   uint32                   // number of the link that was begun last
	order      protocol.Order[*arrival] // of the short messages of the peer
	puts, gets protocol.Tags            // tags of payloads that this process sends, and of those that it has asked for
	abandoned  []uint32                 // tags of payloads that the peer may have sent, although nothing receives them
	copied     int                      // bytes of payloads that were copied, and whose sends are not complete
	answering  int                      // the same of answers to optimized GETs

	state
}

// state is what an interface knows of a peer.
type state struct {
	incarnations peering.Incarnations
	doubt        peering.Doubt
	stall        peering.Stall
	lost         bool      // a link has ended, and PeerDown was not called since
	heard        time.Time // when the peer last gave a sign of life
	since        time.Time // since when nothing was heard that is expected from the peer
	sent         uint64    // messages of the node that were started
	queue        queue
	touched      bool // the peer is in Driver.touched
	link
}

// link is this process's end of a link. It is zero if no link was begun. The link is open when the peer has sent a Reply
// with the number local.
type link struct {
	local, remote uint32 // its number here, and at the peer; remote is 0 if that is not known
	answered      uint32 // the remote number to which a Reply was sent
	open          bool
	sequence      uint32 // of the next message
	probed        bool   // a Probe was sent, and nothing was heard since
	unanswered    bool   // something was sent, and nothing was heard since
	credits       int    // messages that the peer takes
	granted       int    // credits that the peer had when the link was opened
	held          int    // messages of the peer that are not complete
	owed          int    // credits to return
	shortMax      int    // longest payload that is sent with its header
	getOpt        bool   // the peer takes GetOpt
	active        []transfer
	answers       []*arrival // answers to GETs that wait until copies are sent
}

// transfer is a message that was started and is not complete: an outgoing or an arrival.
type transfer interface {
	// end is called when the link has ended. Afterwards the message completes with an error.
	end(e *ending)
	// abandon completes the message although MPI may still use its memory.
	abandon()
	// slot returns where the index in link.active is stored.
	slot() *int
}

// ending is why and how a link ends.
type ending struct {
	seen   lnd.Status // of messages that the peer may have received
	unseen lnd.Status // of all others
	err    error
	bye    protocol.Reason // sent to the peer in a BYE; 0: no BYE is sent
	wanted bool            // Disconnect or Close was called: the peer is not lost
	keep   bool            // another link begins; messages that were not started wait for it
}

func newPeer(d *Driver, at Place, id lnet.ProcessID) *peer {
	largest := d.config.MPI.MaxTag()
	return &peer{d: d, at: at, id: id, puts: protocol.PutTags(largest), gets: protocol.GetTags(largest)}
}

// reports reports whether the node gets upcalls about losses and restarts of the peer.
func (p *peer) reports() bool { return p.id.PID == lnet.PIDLustre && !p.d.ni.closed }

func (p *peer) log(level slog.Level, text string, attrs ...slog.Attr) {
	p.d.ni.log.Report(boundedlog.Line{Level: level, Text: text, Cause: "connections", Of: boundedlog.AboutPeer(p.id.NID)}, attrs...)
}

// logRecovered logs that a failure of the peer has ended.
func (p *peer) logRecovered(text string) {
	p.d.ni.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: text, Cause: "connections", Of: boundedlog.AboutPeer(p.id.NID), Recovery: true})
}

// begin begins a link.
func (p *peer) begin() {
	if p.lastLink++; p.lastLink == 0 {
		p.lastLink++
	}
	p.link = link{local: p.lastLink}
	p.since = time.Now()
}

// call begins a link and requests it from the peer (MPI-24).
func (p *peer) call() {
	p.begin()
	p.control(protocol.Query)
}

// add adds a message to those in progress.
func (p *peer) add(t transfer) {
	*t.slot() = len(p.active)
	p.active = append(p.active, t)
}

// remove removes a message from those in progress.
func (p *peer) remove(t transfer) {
	last := len(p.active) - 1
	moved, k := p.active[last], *t.slot()
	p.active[k], *moved.slot() = moved, k
	p.active[last] = nil
	p.active = p.active[:last]
}

// control sends a message that needs no credit, on the current link.
func (p *peer) control(t protocol.Type) {
	p.write(&protocol.Message{Type: t})
}

// write sends a message that needs no credit, on the current link. If that is not possible, the link ends.
func (p *peer) write(m *protocol.Message) {
	b := p.d.memory.shortBuffer()
	if err := p.transmit(request{owner: p.d, part: message, link: p.local, buf: b}, p.number(m, b)); err != nil && m.Type != protocol.Bye {
		p.fault(err)
	}
}

// number adds to m what all messages on the link have, and encodes it at the beginning of b.
func (p *peer) number(m *protocol.Message, b []byte) []byte {
	m.From, m.To = p.local, p.remote
	if m.Sequence == 0 {
		m.Sequence = p.sequence
		p.sequence = protocol.Following(p.sequence)
	}
	if p.open {
		m.Credits = uint16(p.owed)
		p.held -= p.owed
		p.owed = 0
	}
	return p.encode(m, b)
}

func (p *peer) encode(m *protocol.Message, b []byte) []byte {
	if i := p.d.ni; m.Type == protocol.Query || m.Type == protocol.Reply || m.Type == protocol.Bye {
		m.Block = protocol.Block{
			Min: protocol.Version, Max: protocol.Version, ShortMax: uint32(p.d.config.ShortMax),
			Credits: uint32(credits(i.config.Tunables)), MaxPayload: lnet.MTU,
			NID: i.config.NID, PID: p.d.config.PID, Incarnation: i.incarnation,
		}
		if p.d.config.Proxy {
			m.Block.Role = protocol.Proxy
		} else {
			m.Block.Features = protocol.FeatureGet
		}
	}
	return m.Append(b[:0])
}

// transmit starts to send b, a message that is encoded in r.buf.
func (p *peer) transmit(r request, b []byte) error {
	r.p, r.comm = p, p.at.Comm
	if p.d.broken != nil {
		p.d.memory.release(r.buf)
		return p.d.broken
	}
	return p.d.send(r, protocol.ShortTag, b)
}

// refuse answers a message of a link that does not exist.
func (p *peer) refuse(m *protocol.Message, why protocol.Reason) {
	b := p.d.memory.shortBuffer()
	bye := protocol.Message{Type: protocol.Bye, From: m.To, To: m.From, Sequence: protocol.Unordered, Reason: why}
	if err := p.transmit(request{owner: p.d, part: message, buf: b}, p.encode(&bye, b)); err != nil {
		_ = p.d.report(err)
	}
}

// handle handles a message of the peer. It takes over a.
func (p *peer) handle(a *arrival) {
	m := &a.msg
	p.heard = time.Now()
	switch {
	case p.d.ni.closed && m.Type == protocol.Query:
		p.refuse(m, protocol.Closing)
	case p.d.ni.closed:
		p.stale(m)
	case m.Type == protocol.Query:
		p.query(m)
	case m.Type == protocol.Reply && m.To == p.local && p.local != 0:
		p.reply(m)
	case m.Type == protocol.Bye:
		p.bye(m)
	case p.open && m.From == p.remote && m.To == p.local:
		p.receive(a)
		return
	default:
		p.stale(m)
	}
	a.recycle()
}

// stale handles a message of a link that does not exist. Its payload, if that was sent, has to be received.
func (p *peer) stale(m *protocol.Message) {
	p.discard(m)
	if m.Type != protocol.Bye {
		p.refuse(m, protocol.Stale)
	}
}

// check checks the block of a message that requests or accepts a link. If it is wrong, it refuses the link.
func (p *peer) check(m *protocol.Message) error {
	k := &m.Block
	if err := k.Agree(); err != nil {
		p.d.ni.refusals.Add(lnd.RefusedVersion)
		p.refuse(m, protocol.BadVersion)
		return fmt.Errorf("%w: %w", lnd.ErrProtocol, err)
	}
	if k.NID != p.id.NID || k.PID != p.id.PID {
		p.d.ni.refusals.Add(lnd.RefusedNID)
		p.refuse(m, protocol.WrongIdentity)
		return fmt.Errorf("%w: rank %d is %s, not %d-%s", lnd.ErrProtocol, p.at.Rank, p.id, k.PID, k.NID)
	}
	return nil
}

// query handles the request of a link.
func (p *peer) query(m *protocol.Message) {
	if err := p.check(m); err != nil {
		p.end(ending{seen: lnd.StatusRemoteError, unseen: lnd.StatusRemoteError, err: err})
		return
	}
	if p.open { // the peer has ended the link
		p.end(ending{seen: lnd.StatusNetworkTimeout, err: lnd.ErrDisconnected, keep: true})
	}
	if p.local == 0 {
		p.begin()
	}
	p.observe(m.Block.Incarnation)
	p.agree(m)
}

// reply handles the acceptance of the link.
func (p *peer) reply(m *protocol.Message) {
	if err := p.check(m); err != nil {
		p.end(ending{seen: lnd.StatusRemoteError, unseen: lnd.StatusRemoteError, err: err})
		return
	}
	p.observe(m.Block.Incarnation)
	if p.answered != m.From {
		p.agree(m)
	}
	if p.open || p.local == 0 {
		return
	}
	p.open, p.lost = true, false
	p.d.count.links.Add(1)
	p.d.ni.connected.Store(p.id.NID, nil)
	p.hear()
	p.receiveAbandoned()
	p.flush()
}

// agree sets what both sides have agreed on, and answers the peer's number of the link.
func (p *peer) agree(m *protocol.Message) {
	k := &m.Block
	p.remote, p.answered = m.From, m.From
	p.credits = int(min(k.Credits, 1<<16-1))
	p.granted = credits(p.d.ni.config.Tunables)
	p.shortMax = min(int(min(k.ShortMax, lnet.MTU)), p.d.config.ShortMax)
	p.getOpt = k.Features&protocol.FeatureGet != 0
	p.control(protocol.Reply)
}

// observe reports a restart of the peer, if the incarnation shows one.
func (p *peer) observe(incarnation uint64) {
	if p.incarnations.Observe(incarnation) {
		p.restarted()
	}
}

func (p *peer) restarted() {
	p.d.count.restarts.Add(1)
	if p.reports() {
		p.d.ni.config.Upper.PeerRestarted(p.id.NID)
	}
}

// receiveAbandoned receives the payloads of former links that the peer may have sent. They have arrived before the Reply
// that has opened this link; others will not come. So the tags can be used again.
func (p *peer) receiveAbandoned() {
	list := p.abandoned
	p.abandoned = nil
	for _, tag := range list {
		b := p.d.memory.large(lnet.MTU)
		r := request{owner: p.d, part: discard, comm: p.at.Comm, p: p, tag: tag, buf: b}
		id, err := p.d.receive(r, p.at.Rank, int(tag), b)
		if err != nil {
			p.discarded(tag, err)
			continue
		}
		p.d.cancel(id)
	}
}

// bye handles the end of the link, or its refusal.
func (p *peer) bye(m *protocol.Message) {
	here := m.To == p.local && (p.remote == 0 || m.From == 0 || m.From == p.remote)
	there := m.To == 0 && m.From == p.remote && p.remote != 0
	if p.local == 0 || !here && !there {
		return
	}
	if m.Reason == protocol.Stale {
		p.observe(m.Block.Incarnation)
	}
	err := fmt.Errorf("%w: %s", lnd.ErrDisconnected, m.Reason)
	e := ending{seen: lnd.StatusNetworkTimeout, unseen: lnd.StatusRemoteDropped, err: err}
	switch m.Reason {
	case protocol.BadVersion, protocol.WrongIdentity:
		e.seen, e.unseen, e.err = lnd.StatusRemoteError, lnd.StatusRemoteError, fmt.Errorf("%w: refused: %s", lnd.ErrProtocol, m.Reason)
	case protocol.Closing, protocol.BadProtocol:
	default:
		e.keep = !p.open && p.queue.len() > 0 // the peer has ended a former attempt
	}
	since := p.since
	if p.end(e); e.keep {
		p.call()
		p.since = since
	}
}

// fault ends the link after an error of MPI (mpilnd B.8).
func (p *peer) fault(err error) {
	_ = p.d.report(err)
	p.end(ending{seen: lnd.StatusLocalError, unseen: lnd.StatusRemoteDropped, err: failed(err), bye: protocol.Failed})
}

// violated ends the link because the peer broke the protocol.
func (p *peer) violated(err error) {
	p.d.count.protocolErrors.Add(1)
	p.end(ending{
		seen: lnd.StatusRemoteError, unseen: lnd.StatusRemoteDropped, err: fmt.Errorf("%w: %w", lnd.ErrProtocol, err), bye: protocol.BadProtocol,
	})
}

// end ends the link, if one was begun, and completes its messages. Those that were not started complete too, unless
// e.keep is set.
func (p *peer) end(e ending) {
	if p.local == 0 || p.d.ni == nil {
		return
	}
	if e.bye != 0 {
		bye := protocol.Message{Type: protocol.Bye, Reason: e.bye}
		if e.bye == protocol.Failed { // a message that came before may be missing
			bye.Sequence = protocol.Unordered
		}
		p.write(&bye)
	}
	l, upper := p.link, p.d.ni.config.Upper
	p.link = link{}
	p.d.ni.connected.Delete(p.id.NID)
	p.doubt.End()
	var unsent []*lnd.Tx
	if !e.keep {
		unsent = p.queue.remove(func(*lnd.Tx) bool { return true })
	}
	if l.open {
		p.d.count.closes.Add(1)
		p.log(slog.LevelInfo, "connections closed", slog.Any("cause", e.err))
		if p.reports() {
			upper.ConnectionsLost(p.id.NID)
		}
	}
	p.lost = (p.lost || l.open) && !e.wanted
	if (p.lost || len(unsent) > 0) && !e.keep && !e.wanted && p.reports() {
		p.lost = false
		p.d.count.down.Add(1)
		upper.PeerDown(lnd.PeerDown{Peer: p.id.NID, LastAlive: p.heard, Err: failure("connect", p.id.NID, e.seen, e.err)})
	}
	for _, t := range l.active {
		t.end(&e)
	}
	for _, tx := range unsent {
		p.failed(tx, e.unseen, e.err)
	}
}

// failed completes a message with an error.
func (p *peer) failed(tx *lnd.Tx, s lnd.Status, err error) {
	tx.Done.Sent(tx, failure("send", p.id.NID, s, err))
}
