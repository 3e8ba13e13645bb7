package mpilnd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// defaultTimeout is the LND timeout if neither the node nor the driver has one.
	defaultTimeout = 50 * time.Second
	// closeWait is how long Close waits for sends that peers have not received. A peer that lives receives them, or
	// discards them, at once.
	closeWait = time.Second
)

// ni implements lnd.Interface.
type ni struct {
	d           *Driver
	config      lnd.Config
	log         *boundedlog.Log
	incarnation uint64
	options     atomic.Pointer[Config]
	refusals    peering.Refusals
	connected   sync.Map // NIDs of the peers with open links
	link        atomic.Uint32
	closing     atomic.Bool
	ended       chan struct{} // closed when the interface has ended

	// Only tasks, and Run between them, use the fields below.
	closed   bool
	missing  []int                 // receives for short messages to post on each communicator
	until    time.Time             // when the end of the interface waits no longer for sends
	lingerer map[transfer]struct{} // transfers of ended links into memory of the node
}

// newNI returns an interface that is not open yet.
func (d *Driver) newNI(c *lnd.Config) (*ni, error) {
	switch err := c.Resolve(); {
	case err != nil:
		return nil, err
	case c.Upper == nil:
		return nil, errors.New("Config.Upper is not set")
	case c.NID.IsZero():
		return nil, errors.New("Config.NID is not set")
	case c.Net.Type() != d.config.Type:
		return nil, fmt.Errorf("net type is %s instead of %s", c.Net.Type(), d.config.Type)
	}
	c.Tunables = c.Tunables.Or(d.config.Tunables)
	c.Tunables.Credits = max(c.Tunables.Credits, c.Tunables.PeerCredits)
	i := &ni{
		d: d, config: *c, log: d.log, incarnation: rand.Uint64(), ended: make(chan struct{}),
		lingerer: make(map[transfer]struct{}),
	}
	if c.Logger != nil {
		i.log = boundedlog.New(c.Logger)
	}
	i.log = i.log.With("nid", c.NID.String())
	return i, i.Tune(c.Options)
}

// open posts the receives for short messages. From then on, messages are received. It runs as a task.
func (i *ni) open() error {
	d := i.d
	switch {
	case d.ni != nil:
		return lnd.ErrExists
	case d.broken != nil:
		return d.broken
	}
	d.ni = i
	for _, p := range d.peers {
		p.state = state{}
	}
	for _, comm := range d.config.Comms {
		i.missing = append(i.missing, d.config.poolSize(comm, i.config.Tunables))
	}
	err := d.postPool()
	if err != nil {
		i.shut()
	}
	return err
}

func (i *ni) NID() lnet.NID               { return i.config.NID }
func (i *ni) Device() string              { return i.config.Device }
func (i *ni) LargeNIDs() bool             { return true }
func (i *ni) Tunables() lnd.Tunables      { return i.config.Tunables }
func (i *ni) Options() lnd.Values         { return fields.Values(i.options.Load()) }
func (i *ni) Link() lnd.LinkState         { return lnd.LinkState(i.link.Load()) }
func (i *ni) Refusals() lnd.RefusalCounts { return i.refusals.Counts() }

func (i *ni) Timeout() time.Duration {
	return cmp.Or(i.options.Load().Timeout, i.config.Upper.LNDTimeout(), defaultTimeout)
}

// Tune implements lnd.Tuner.
func (i *ni) Tune(values lnd.Values) error {
	c := i.d.config
	if err := fields.SetAll(&c, values); err != nil {
		return fmt.Errorf("mpilnd: tune %s: %w", i.config.NID, err)
	}
	i.options.Store(&c)
	return nil
}

func (i *ni) Send(m *lnd.Tx) { i.d.do(task{send: m, by: i}) }

func (i *ni) Receive(m *lnd.Rx, place lnd.Placement) {
	a := m.Driver.(*arrival)
	a.place = place
	a.placing.Store(true)
	i.d.do(task{receive: a})
}

func (i *ni) Disconnect(nid lnet.NID) {
	i.connected.Delete(nid)
	i.with(nid, func(p *peer) {
		p.end(ending{
			seen: lnd.StatusLocalError, unseen: lnd.StatusLocalAborted, err: peering.ErrDisconnect,
			bye: protocol.Disconnected, wanted: true,
		})
	})
}

func (i *ni) Recall(nid lnet.NID, match func(m *lnd.Tx) bool) {
	i.with(nid, func(p *peer) {
		for _, tx := range p.queue.remove(match) {
			p.failed(tx, lnd.StatusLocalInterrupt, lnd.ErrRecalled)
		}
	})
}

func (i *ni) LinkBack(nid lnet.NID) { i.with(nid, func(p *peer) { p.renew(time.Now()) }) }

func (i *ni) Probe(nid lnet.NID) bool {
	_, open := i.connected.Load(nid)
	if open {
		i.with(nid, func(p *peer) {
			if p.open && p.doubt.Begin() && p.doubt.BeginProbe(time.Now()) {
				p.await()
				p.control(protocol.Probe)
			}
		})
	}
	return open
}

// with calls f for the peer with a NID, or for all peers if it is zero, in a task. f is not called when the interface
// is closing.
func (i *ni) with(nid lnet.NID, f func(p *peer)) {
	i.d.do(task{call: func() {
		if i.d.ni != i || i.closed {
			return
		}
		if !nid.IsZero() {
			if at, _ := i.d.config.Peers.Find(nid); i.d.peers[at] != nil && i.d.peers[at].id.NID == nid {
				f(i.d.peers[at])
			}
			return
		}
		for _, p := range i.d.peers {
			f(p)
		}
	}})
}

// send sends a message. It runs as a task.
func (i *ni) send(tx *lnd.Tx) {
	var p *peer
	at, found := i.d.config.Peers.Find(tx.To.NID)
	switch {
	case i.closed || i.d.ni != i:
		tx.Done.Sent(tx, failure("send", tx.To.NID, lnd.StatusRemoteDropped, peering.ErrClosing))
		return
	case i.d.broken != nil:
		tx.Done.Sent(tx, failure("send", tx.To.NID, lnd.StatusLocalError, failed(i.d.broken)))
		return
	case found:
		p = i.d.peer(at)
	}
	if p == nil {
		tx.Done.Sent(tx, unreachable(tx.To.NID))
		return
	}
	p.send(tx)
}

// Close implements lnd.Interface. It waits a second for peers to receive what was sent to them.
func (i *ni) Close(ctx context.Context) error {
	if i.closing.Swap(true) {
		return lnd.ErrClosed
	}
	i.d.do(task{call: i.shut})
	select {
	case <-i.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("mpilnd: close %s", i.config.NID), lnd.ErrTimeout, context.Cause(ctx))
	}
}

// shut ends all links and cancels the receives for short messages. Watch then calls finish. It runs as a task.
func (i *ni) shut() {
	if i.closed {
		return
	}
	i.closed, i.until = true, time.Now().Add(closeWait)
	for _, p := range i.d.peers {
		p.end(ending{
			seen: lnd.StatusLocalError, unseen: lnd.StatusRemoteDropped, err: peering.ErrClosing,
			bye: protocol.Closing, wanted: true,
		})
	}
	i.d.cancelPool()
	if i.d.broken != nil {
		i.finish(true)
	}
}

// finish ends an interface that is closing if no request is left that it has to wait for. If force is set, or if the
// time has passed within which living peers receive everything, it waits for none: sends to dead peers never complete.
func (i *ni) finish(force bool) {
	late := force || !time.Now().Before(i.until)
	if !late && (len(i.lingerer) > 0 || i.d.requests.busy() > 0) {
		return
	}
	for t := range i.lingerer {
		t.abandon()
	}
	clear(i.lingerer)
	if !i.closed {
		return
	}
	i.d.ni = nil
	i.d.do(task{call: func() { close(i.ended) }}) // after the tasks that these completions have caused
}

// linkDown reports that MPI has failed.
func (i *ni) linkDown() {
	if i.link.Swap(uint32(lnd.LinkDown)) == uint32(lnd.LinkUp) && !i.closed {
		i.config.Upper.LinkChanged(lnd.LinkDown)
	}
}
