package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Portals of every node.
const (
	portalMailbox = 10 + iota // two MDs to which PUTs are appended; each is posted again when it is full
	portalSlots               // MDs with ManageRemote, in which each PUT has a separate range
	portalOneShot             // an MD for one operation
	portalLazy                // like portalOneShot, but the portal is lazy, and the MD is posted after the PUT
	portalUnique              // like portalOneShot, but the entry accepts one initiator only
	portalStore               // MDs with data for GETs
	portalEmpty               // never has an entry
)

const (
	mailboxSize = 8 << 10
	mailboxMax  = 2 << 10 // bytes kept of one message
	storeSize   = 16 << 10

	// Tags of the two stores: one truncates a GET that reaches beyond its end, the other refuses it.
	storeTruncates = 1
	storeRefuses   = 2

	tagIgnored = 1<<32 - 1 // mask of the low half of the match bits
)

// postStanding posts the permanent MDs at the start of a life: two mailboxes and two stores.
func (l *life) postStanding() {
	w := l.member.w
	if err := l.node.SetLazy(portalLazy); err != nil {
		w.violate("%v: lazy portal: %v", l, err)
	}
	for box := range uint64(2) {
		l.postMailbox(rand.New(rand.NewPCG(w.seed, uint64(l.member.index)<<32|uint64(l.number)<<8|box)))
	}
	for tag := range uint32(2) {
		l.postStore(storeTruncates + tag)
	}
}

// postMailbox posts the MD of a mailbox. When the MD has ended, another one is posted, immediately or
// after a pause.
func (l *life) postMailbox(r *rand.Rand) {
	w := l.member.w
	md := portals.MD{Options: portals.OpPut | portals.MaxSize, MaxSize: mailboxMax, Unlink: true, Threshold: portals.Unlimited}
	if r.IntN(2) == 0 {
		md.Options |= portals.Truncate
	}
	if r.IntN(3) == 0 {
		md.Threshold = 1 + r.IntN(8)
	}
	d := l.newDescriptor("mailbox", w.memory.region(mailboxSize, 1+r.IntN(3)), &md)
	pause := time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(2*time.Second)))
	d.postNext = func() {
		if pause == 0 {
			l.postMailbox(r)
			return
		}
		w.after(pause, func() {
			if l.running() {
				l.postMailbox(r)
			}
		})
	}
	l.attach(d, portals.Entry{Portal: portalMailbox, IgnoreBits: tagIgnored}, md)
}

// running reports whether the life has not ended.
func (l *life) running() bool {
	l.member.w.mu.Lock()
	defer l.member.w.mu.Unlock()
	return !l.ending
}

// postStore posts an MD with data for GETs.
func (l *life) postStore(tag uint32) {
	w := l.member.w
	md := portals.MD{Options: portals.OpGet | portals.ManageRemote, Threshold: portals.Unlimited}
	if tag == storeTruncates {
		md.Options |= portals.Truncate
	}
	d := l.newDescriptor("store", w.memory.region(storeSize, int(tag)), &md)
	d.content = l.member.store()
	d.memory.fill(d.content)
	l.attach(d, portals.Entry{Portal: portalStore, MatchBits: uint64(tag) << 32, IgnoreBits: tagIgnored}, md)
}

// store returns the stream that the member's stores contain. It is the same in all lives.
func (m *member) store() stream { return stream(0xc0<<56 | m.w.seed<<16 | uint64(m.index)) }

// slot reserves a range for PUT o in a large MD on portalSlots. It posts another MD if the current one
// has not enough room.
func (l *life) slot(o *operation, r *rand.Rand) {
	w := l.member.w
	w.mu.Lock()
	d := l.slots
	if d == nil || d.memory.n-d.next < o.length {
		l.member.generation++
		tag := l.member.generation
		w.mu.Unlock()
		md := portals.MD{Options: portals.OpPut | portals.ManageRemote, Threshold: portals.Unlimited}
		d = l.newDescriptor("slots", w.memory.region(max(8<<10, 2*o.length), 1+r.IntN(3)), &md)
		if !l.attach(d, portals.Entry{Portal: portalSlots, MatchBits: uint64(tag) << 32, IgnoreBits: tagIgnored}, md) {
			o.never = true
			return
		}
		w.mu.Lock()
		l.slots = d
	}
	o.tag, o.offset = d.tag, d.next
	d.next += o.length + r.IntN(16)
	d.next = min(d.next, d.memory.n)
	o.entry = d
	w.mu.Unlock()
}

// fit is the size of a one-shot MD in relation to its message.
type fit uint8

const (
	fitExact     fit = iota
	fitLoose         // larger than necessary
	fitTruncates     // too small, and the message is truncated
	fitRefuses       // too small, and the message is dropped
)

// oneShot creates an MD that only operation o may match, and returns the function that posts it. The
// entry accepts requests from match.
func (l *life) oneShot(o *operation, portal uint32, f fit, match lnet.ProcessID, pieces int) (post func()) {
	w := l.member.w
	o.portal = portal
	n := o.length
	md := portals.MD{Options: portals.OpPut, Threshold: 1, Unlink: true}
	if o.kind == opFetch {
		md.Options = portals.OpGet
	}
	switch f {
	case fitExact:
	case fitLoose:
		n += 1 + n/3
	case fitTruncates:
		n /= 2
		md.Options |= portals.Truncate
	case fitRefuses:
		n /= 2
		o.never = o.never || n < o.length
	}
	d := l.newDescriptor("one-shot", w.memory.region(n, pieces), &md)
	d.only = o
	o.entry = d
	if o.kind == opFetch {
		d.content = o.stream
		d.memory.fill(d.content)
		o.content, o.contentLen = d.content, min(n, o.length)
	}
	return func() {
		l.attach(d, portals.Entry{Portal: portal, Match: match, MatchBits: o.bits(), Position: portals.After}, md)
	}
}
