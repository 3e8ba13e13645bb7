package protocol

import "slices"

// Order restores the order in which another process has sent its messages. MPI matches them with receives in this
// order, but may report completions in another one. A process numbers its links upwards, so a message belongs to the
// latest link, to an earlier one, or to one whose first message is missing. The zero value has received nothing.
type Order[T any] struct {
	link, next uint32 // the latest link, and the sequence of its next message
	waiting    []numbered[T]
}

type numbered[T any] struct {
	link, sequence uint32
	v              T
}

// Add adds the message v with the given From and Sequence, which is not Unordered.
func (o *Order[T]) Add(from, sequence uint32, v T) {
	o.waiting = append(o.waiting, numbered[T]{from, sequence, v})
}

// Next removes and returns the next message. stale means that it belongs to an earlier link than the latest one. ok is
// false if the next message has not been added yet.
func (o *Order[T]) Next() (v T, stale, ok bool) {
	for k, m := range o.waiting {
		age := int32(m.link - o.link)
		switch {
		case age < 0, age == 0 && int32(m.sequence-o.next) < 0:
			stale = true
		case age == 0 && m.sequence == o.next:
			o.next = Following(o.next)
		case age > 0 && m.sequence == 0:
			o.link, o.next = m.link, 1
		default:
			continue
		}
		o.waiting = slices.Delete(o.waiting, k, k+1)
		return m.v, stale, true
	}
	return v, false, false
}

// Following returns the sequence of the message after the one with the given sequence. It is never Unordered.
func Following(sequence uint32) uint32 { return (sequence + 1) % Unordered }

// Waiting returns the number of messages that were added and not returned.
func (o *Order[T]) Waiting() int { return len(o.waiting) }
