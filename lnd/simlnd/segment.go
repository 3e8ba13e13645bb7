package simlnd

import "time"

// segment is an element in transit in a pipe: the bytes up to an offset, or an end.
type segment struct {
	kind segmentKind
	end  uint64
	at   time.Duration // arrival
}

type segmentKind uint8

const (
	segmentData  segmentKind = iota
	segmentEnd               // orderly end
	segmentReset             // the stream is reset
)

// segments is a FIFO queue that allocates only when it grows.
type segments struct {
	list []segment
	head int
}

func (q *segments) n() int          { return len(q.list) - q.head }
func (q *segments) front() *segment { return &q.list[q.head] }

func (q *segments) last() *segment { return &q.list[len(q.list)-1] }

// push appends s. Bytes that arrive at the same time become one segment.
func (q *segments) push(s segment) {
	if q.n() > 0 {
		if last := q.last(); last.kind == segmentData && s.kind == segmentData && last.at == s.at {
			last.end = s.end
			return
		}
	}
	if q.head > 0 && len(q.list) == cap(q.list) {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	q.list = append(q.list, s)
}

func (q *segments) pop() {
	if q.head++; q.head == len(q.list) {
		q.clear()
	}
}

func (q *segments) clear() { q.list, q.head = q.list[:0], 0 }

// ends reports whether the last segment is of the kind.
func (q *segments) ends(k segmentKind) bool {
	return q.n() > 0 && q.last().kind == k
}

// delay postpones all arrivals to at or later, and returns the last arrival time.
func (q *segments) delay(at time.Duration) time.Duration {
	for i := q.head; i < len(q.list); i++ {
		q.list[i].at = max(q.list[i].at, at)
	}
	return q.list[len(q.list)-1].at
}
