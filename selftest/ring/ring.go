package ring

import "iter"

// Links are the links of an element in a ring. An element that can be in several rings at a time needs a
// separate Links for each.
type Links[T any] struct {
	next, previous *Links[T]
	element        *T
}

// In reports whether the element is in a ring.
func (l *Links[T]) In() bool { return l.next != nil }

// Ring is a list of elements in the order in which they were added. The zero value is empty.
type Ring[T any] struct {
	first *Links[T]
	n     int
}

// Len returns the number of elements.
func (r *Ring[T]) Len() int { return r.n }

// First returns the first element, or nil if the ring is empty.
func (r *Ring[T]) First() *T {
	if r.first == nil {
		return nil
	}
	return r.first.element
}

// Add adds e after the last element. l must be a Links of e that is in no ring.
func (r *Ring[T]) Add(e *T, l *Links[T]) {
	l.element = e
	if r.first == nil {
		l.next, l.previous = l, l
		r.first = l
	} else {
		l.next, l.previous = r.first, r.first.previous
		l.next.previous, l.previous.next = l, l
	}
	r.n++
}

// Remove removes the element with links l, which must be in r.
func (r *Ring[T]) Remove(l *Links[T]) {
	switch {
	case r.n == 1:
		r.first = nil
	case r.first == l:
		r.first = l.next
	}
	l.next.previous, l.previous.next = l.previous, l.next
	*l = Links[T]{}
	r.n--
}

// Turn makes the first element the last one.
func (r *Ring[T]) Turn() {
	if r.first != nil {
		r.first = r.first.next
	}
}

// All returns an iterator over the elements, beginning with the first. The loop may remove the current
// element, but must not change the ring in any other way.
func (r *Ring[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		l := r.first
		for range r.n {
			next := l.next
			if !yield(l.element) {
				return
			}
			l = next
		}
	}
}
