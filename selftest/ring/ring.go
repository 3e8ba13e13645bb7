package ring

import "iter"

// Links are an element's place in one ring at a time. An element that is in
// several rings at once has one for each.
type Links[T any] struct {
	next, previous *Links[T]
	element        *T
}

// In tells whether the element is in a ring.
func (l *Links[T]) In() bool { return l.next != nil }

// Ring is elements in the order in which they were added, of which one is the
// first. The zero value is empty.
type Ring[T any] struct {
	first *Links[T]
	n     int
}

// Len is the number of elements.
func (r *Ring[T]) Len() int { return r.n }

// First is the first element; nil: there is none.
func (r *Ring[T]) First() *T {
	if r.first == nil {
		return nil
	}
	return r.first.element
}

// Add puts e behind the last element. l is e's, and in no ring.
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

// Remove takes out the element of l, which is in r.
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

// Turn makes the first element the last.
func (r *Ring[T]) Turn() {
	if r.first != nil {
		r.first = r.first.next
	}
}

// All are the elements, from the first on. The one at hand may be taken out; other
// changes must wait.
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
