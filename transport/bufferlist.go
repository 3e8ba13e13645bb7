package transport

// bufferList is one queue of a TM, in the order in which buffers were added. A buffer is on at most one
// bufferList.
type bufferList struct {
	first, last *Buffer
	length      int
}

// add appends b to the list.
func (l *bufferList) add(b *Buffer) {
	b.state.prev, b.state.next = l.last, nil
	if l.last == nil {
		l.first = b
	} else {
		l.last.state.next = b
	}
	l.last = b
	l.length++
}

// remove removes b, which must be on the list.
func (l *bufferList) remove(b *Buffer) {
	s := &b.state
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.state.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.state.prev = s.prev
	}
	s.prev, s.next = nil, nil
	l.length--
}
