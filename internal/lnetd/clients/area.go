package clients

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// area is client memory that is mapped into this process (transport 9.3).
type area struct {
	memory *shared.Memory
	bytes  []byte
	users  int // number of segments of registered buffers in this area; guarded by client.mu
}

// newArea maps the shared memory that a client has sent as the descriptor fd and registers it with the
// Core. It always closes fd. The size is what the client claims; newArea returns an error if it is wrong.
func newArea(ctx context.Context, d completion.Domain, fd int, size uint64) (*area, error) {
	m, err := shared.Adopt(fd, int64(size)) // sizes beyond 2^63 become negative and are rejected
	if err != nil {
		return nil, err
	}
	a := &area{memory: m, bytes: m.Bytes()}
	if err := d.Adopt(ctx, a.bytes); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return a, nil
}

// unmap unregisters the area from the Core and unmaps it. If the Core still uses the memory, which is a
// bug, the area stays mapped and unmap returns the Core's error.
func (a *area) unmap(d completion.Domain) error {
	if err := d.Free(a.bytes); err != nil {
		return err
	}
	return a.memory.Close()
}

// areas holds a client's areas, indexed by area ID. client.mu guards it.
type areas []*area

// get returns the area with an ID, or EBADR if it does not exist.
func (s areas) get(id uint32) (*area, error) {
	if uint64(id) >= uint64(len(s)) || s[id] == nil {
		return nil, fmt.Errorf("area %d does not exist: %w", id, syscall.EBADR)
	}
	return s[id], nil
}

// add stores an area under an unused ID and returns the ID.
func (s *areas) add(a *area) uint32 {
	for id, o := range *s {
		if o == nil {
			(*s)[id] = a
			return uint32(id)
		}
	}
	*s = append(*s, a)
	return uint32(len(*s) - 1)
}

// segments converts parts, ranges of a client's areas, to segments of memory, and returns the area of each
// segment. Adjacent ranges become one segment. It returns EFBIG if the number of ranges or their total
// size exceeds the limits, EBADR if an area does not exist, and EINVAL if a range is not within its area.
func (s areas) segments(parts []protocol.Range, l *protocol.Limits) (segments [][]byte, of []*area, err error) {
	if len(parts) > int(l.Segments) {
		return nil, nil, fmt.Errorf("the buffer has %d ranges, but at most %d are allowed: %w", len(parts), l.Segments, syscall.EFBIG)
	}
	var total, last uint64 // last is where the previous segment ends
	for i, r := range parts {
		a, err := s.get(r.Area)
		if err == nil {
			err = a.fits(&r, l)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("range %d: %w", i, err)
		}
		if total += uint64(r.Length); total > l.BufferSize {
			return nil, nil, fmt.Errorf("the buffer is longer than %d bytes: %w", l.BufferSize, syscall.EFBIG)
		}
		from, end, k := r.Offset, r.Offset+uint64(r.Length), len(segments)
		if k > 0 && of[k-1] == a && last == from {
			k--
			from -= uint64(len(segments[k]))
			segments, of = segments[:k], of[:k]
		}
		segments, of, last = append(segments, a.bytes[from:end:end]), append(of, a), end
	}
	return segments, of, nil
}

// fits returns EINVAL if a range is not within the area, is empty, or is longer than a segment may be.
func (a *area) fits(r *protocol.Range, l *protocol.Limits) error {
	if r.Length == 0 || uint64(r.Length) > l.SegmentSize {
		return fmt.Errorf("length %d is not within 1 to %d bytes: %w", r.Length, l.SegmentSize, syscall.EINVAL)
	}
	if size := uint64(len(a.bytes)); r.Offset > size || uint64(r.Length) > size-r.Offset {
		return fmt.Errorf("length %d at offset %d exceeds the area of %d bytes: %w", r.Length, r.Offset, size, syscall.EINVAL)
	}
	return nil
}
