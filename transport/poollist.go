package transport

// pooledState is the data that a pool keeps about a free buffer. Pool.mu guards it.
type pooledState struct {
	colour uint32
	links  [2]link // indexed by linkColour and linkAge
}

// link holds the neighbours of a buffer in a pooledList.
type link struct{ prev, next *Buffer }

const (
	linkColour = iota
	linkAge
)

// pooledList is a list of free buffers of a pool. Each free buffer is on two lists: Pool.byAge, and the list
// of its colour or of buffers without a colour.
type pooledList struct {
	kind        int // which of a buffer's links this list uses: linkColour or linkAge
	first, last *Buffer
	length      int
}

// pushBack appends b to the list.
func (l *pooledList) pushBack(b *Buffer) {
	b.state.pooled.links[l.kind] = link{prev: l.last}
	if l.last == nil {
		l.first = b
	} else {
		l.last.state.pooled.links[l.kind].next = b
	}
	l.last = b
	l.length++
}

// pushFront inserts b at the beginning of the list.
func (l *pooledList) pushFront(b *Buffer) {
	b.state.pooled.links[l.kind] = link{next: l.first}
	if l.first == nil {
		l.last = b
	} else {
		l.first.state.pooled.links[l.kind].prev = b
	}
	l.first = b
	l.length++
}

// remove removes b from the list.
func (l *pooledList) remove(b *Buffer) {
	at := &b.state.pooled.links[l.kind]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.state.pooled.links[l.kind].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.state.pooled.links[l.kind].prev = at.prev
	}
	*at = link{}
	l.length--
}

// insert puts a buffer that the pool owns on its two lists. mu is held.
func (p *Pool) insert(b *Buffer, colour uint32) {
	b.state.pooled.colour = colour
	p.byAge.pushBack(b)
	if colour == AnyColour {
		p.uncoloured.pushBack(b)
	} else {
		p.byColour[colour].pushFront(b)
	}
}

// take removes and returns a buffer by the rules of Get, or returns nil. The caller then owns the buffer. It
// must pass the second result to call after it has released the locks. mu is held.
func (p *Pool) take(colour uint32) (*Buffer, poolCalls) {
	b := p.byAge.first
	if p.uncoloured.first != nil {
		b = p.uncoloured.first
	}
	if colour < uint32(len(p.byColour)) && p.byColour[colour].first != nil {
		b = p.byColour[colour].first
	}
	if b == nil {
		return nil, 0
	}
	p.remove(b)
	b.state.use.Store(idle)
	if p.byAge.length < p.config.Threshold {
		return b, callLow
	}
	return b, 0
}

// oldest removes and returns the longest free buffer, or returns nil. mu is held.
func (p *Pool) oldest() *Buffer {
	b := p.byAge.first
	if b != nil {
		p.remove(b)
	}
	return b
}

// remove removes b from its two lists. mu is held.
func (p *Pool) remove(b *Buffer) {
	p.byAge.remove(b)
	if c := b.state.pooled.colour; c == AnyColour {
		p.uncoloured.remove(b)
	} else {
		p.byColour[c].remove(b)
	}
}
