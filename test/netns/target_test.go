package netns

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Loads are the loads of a loadedDaemon. net/rpc calls its methods.
type Loads struct {
	node *node.Node

	mu      sync.Mutex
	senders []*sender
	sources map[int]*Arrivals // by number

	wedged chan struct{} // see Wedge
}

// Arrivals is what has arrived from a sender.
type Arrivals struct {
	Arrived  set // complete PUTs
	Broken   int // PUTs cut short by a lost connection
	served   set // GETs
	Findings []string
}

// Memory for PUTs. An MD unlinks itself when less than one more message fits, and is posted again. PUTs
// that find no MD wait.
const (
	buffers    = 4
	bufferSize = 4 * mebibyte
)

func newLoads(n *node.Node) (*Loads, error) {
	l := &Loads{node: n, sources: make(map[int]*Arrivals)}
	if err := n.SetLazy(putPortal); err != nil {
		return nil, err
	}
	for range buffers {
		if err := l.post(make([]byte, bufferSize)); err != nil {
			return nil, err
		}
	}
	_, err := n.Attach(
		portals.Entry{Portal: getPortal, IgnoreBits: ^uint64(0)},
		portals.MD{Bytes: pattern(), Threshold: portals.Unlimited, Options: portals.OpGet | portals.ManageRemote, Handler: portals.HandlerFunc(l.served)})
	return l, err
}

// post offers memory for PUTs.
func (l *Loads) post(memory []byte) error {
	_, err := l.node.Attach(
		portals.Entry{Portal: putPortal, IgnoreBits: ^uint64(0), Position: portals.After},
		portals.MD{
			Bytes: memory, Threshold: portals.Unlimited, Unlink: true, MaxSize: mebibyte,
			Options: portals.OpPut | portals.MaxSize, Handler: portals.HandlerFunc(l.arrived),
		})
	return err
}

// from returns the record of a request's sender. l.mu is held.
func (l *Loads) from(e *portals.Event) (a *Arrivals, seq uint64) {
	number := int(e.MatchBits >> numberBit)
	if a = l.sources[number]; a == nil {
		a = &Arrivals{}
		l.sources[number] = a
	}
	return a, e.MatchBits & seqMask
}

func (a *Arrivals) finding(seq uint64, format string, args ...any) {
	a.Findings = addFinding(a.Findings, fmt.Sprintf("at the target, operation %d: ", seq)+fmt.Sprintf(format, args...))
}

// arrived checks a PUT.
func (l *Loads) arrived(e *portals.Event) {
	l.mu.Lock()
	a, seq := l.from(e)
	switch {
	case e.Type != portals.EventPut:
		a.finding(seq, "unexpected %s", e.Type)
	case e.Err != nil:
		a.Broken++
	case uint64(e.Length) != e.HdrData:
		a.finding(seq, "a PUT of %d bytes, want %d", e.Length, e.HdrData)
	case !bytes.Equal(e.Data(), pattern()[offsetOf(seq):][:e.Length]):
		a.finding(seq, "a PUT of %d bytes with the wrong content", e.Length)
	case !a.Arrived.add(seq):
		a.finding(seq, "arrived twice")
	}
	l.mu.Unlock()
	if e.Unlinked && e.Bytes != nil {
		if err := l.post(e.Bytes); err != nil {
			l.mu.Lock()
			a.finding(seq, "post memory again: %v", err)
			l.mu.Unlock()
		}
	}
}

// served checks a GET.
func (l *Loads) served(e *portals.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, seq := l.from(e)
	switch {
	case e.Type != portals.EventGet:
		a.finding(seq, "unexpected %s", e.Type)
	case e.Offset != offsetOf(seq):
		a.finding(seq, "a GET at %d, want %d", e.Offset, offsetOf(seq))
	case !a.served.add(seq):
		a.finding(seq, "asked for twice")
	}
}

// Begin starts a load and returns its ID.
func (l *Loads) Begin(p *Plan, id *int) error {
	s, err := newSender(l.node, *p)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.senders = append(l.senders, s)
	*id = len(l.senders) - 1
	go s.run()
	return nil
}

func (l *Loads) sender(id int) *sender {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.senders[id]
}

// Look returns the report of a running load.
func (l *Loads) Look(id int, r *Report) error {
	*r = l.sender(id).look()
	return nil
}

// End stops a load and waits until its last operation has ended.
func (l *Loads) End(id int, r *Report) error {
	*r = l.sender(id).finish(answersDown + lateness)
	return nil
}

// Arrivals returns what has arrived from the sender with a number.
func (l *Loads) Arrivals(number int, a *Arrivals) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sources[number]; s != nil {
		*a = *s
		a.Arrived, a.Findings = slices.Clone(s.Arrived), slices.Clone(s.Findings)
	}
	return nil
}
