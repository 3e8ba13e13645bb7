package simlnd

import "time"

// segment is something in transit in a pipe: bytes, the orderly end of the stream, or a reset.
type segment struct {
	kind segmentKind
	end  uint64        // offset after the last byte of the segment
	at   time.Duration // when the segment arrives
}

type segmentKind uint8

const (
	segmentData  segmentKind = iota
	segmentEnd               // orderly end of the stream
	segmentReset             // reset of the stream
)

// segments is a FIFO queue of segments that allocates only when it grows.
type segments struct {
	list []segment
	head int
}

func (q *segments) n() int          { return len(q.list) - q.head }
func (q *segments) front() *segment { return &q.list[q.head] }

func (q *segments) last() *segment { return &q.list[len(q.list)-1] }

// push appends s. If s and the last segment are bytes that arrive at the same time, they become one segment.
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

// ends reports whether the last segment is of the kind k.
func (q *segments) ends(k segmentKind) bool {
	return q.n() > 0 && q.last().kind == k
}

// delay postpones all arrivals before the time at to that time. It returns the time of the last arrival.
func (q *segments) delay(at time.Duration) time.Duration {
	for i := q.head; i < len(q.list); i++ {
		q.list[i].at = max(q.list[i].at, at)
	}
	return q.list[len(q.list)-1].at
}
