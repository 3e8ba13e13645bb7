package shared

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Layout of a ring file (transport 9.4). Numbers are little endian. Each word that is written while the
// file is in use has its own line of 64 bytes. The second column names the side that writes it. SQ is the
// ring of submissions, CQ the ring of completions.
//
//	 0          4          8          12         16         20         24
//	+----------+-----+----+----------+----------+----------+----------+-----+-----+
//	| magic    | ver | hdr| SQ offset| SQ ents  | CQ offset| CQ ents  | SQe | CQe |
//	+----------+-----+----+----------+----------+----------+----------+-----+-----+
//	64   SQ tail u32      client     submissions written
//	128  SQ head u32      lnetd      submissions read
//	192  CQ tail u32      lnetd      completions written
//	256  CQ head u32      client     completions read
//	320  SQ sleeping u32  lnetd      1, 2: lnetd must be woken; set to 0 by the side that wakes it
//	384  CQ sleeping u32  client     1, 2: the client must be woken; set to 0 by the side that wakes it
//	448  3 x u64          lnetd      statistics: submissions taken, sleeps, tokens read
//	512  2 x u64          lnetd      statistics: completions put, tokens written
//	576  SQ posted u32    lnetd      submissions carried out
//	640  SQ waiting u32   client     1: it waits for SQ posted; set to 0 by the side that wakes it
//	704  CQ overflow u32  lnetd      1: lnetd keeps completions; set to 0 by the side that wakes it
//	4096                  client     submissions
//	...                   lnetd      completions, from the next multiple of 4096
//
// Ver is 1 and hdr is 4096. SQe and CQe are the sizes of entries, as the Format defines. All other bytes are 0. Heads
// and tails wrap around modulo 2^32. Entry i is at index i modulo the number of entries. lnetd sets the
// initial counters, which are not 0; SQ posted begins like SQ head. The statistics are for display only;
// lnetd does not read them.
const (
	ringMagic  = 0x474e4952 // "RING"
	version    = 1
	headerSize = 4096

	offVersion    = 4
	offHeaderSize = 6
	offSQ         = 8
	offSQEntries  = 12
	offCQ         = 16
	offCQEntries  = 20
	offSQESize    = 24
	offCQESize    = 26
	fixedSize     = 28

	offSQTail     = 64
	offSQHead     = 128
	offCQTail     = 192
	offCQHead     = 256
	offSQSleeping = 320
	offCQSleeping = 384
	offReleased   = 448
	offSleeps     = 456
	offReads      = 464
	offPut        = 512
	offWakeups    = 520
	offSQPosted   = 576
	offSQWaiting  = 640
	offCQOverflow = 704
)

// Limits of Sizes. A file may have four times as many submissions as completions.
const (
	MinEntries     = 2
	MaxCompletions = 1 << 16
	MaxSubmissions = 4 * MaxCompletions
)

// firstCount is the initial value of heads and tails. It is so close to 2^32 that the counters of every ring
// wrap around soon. So this case is common, in tests as well as in production.
const firstCount = 1<<32 - 256

// errInvalidRing means that lnetd cannot have written the header of a ring file.
var errInvalidRing = fmt.Errorf("not what lnetd writes: %w", syscall.EPROTO)

// Sizes are the numbers of entries of the two rings of a file. Each is a power of two within the limits.
type Sizes struct {
	Submissions, Completions int
}

// check returns EINVAL if a size is not a power of two or not within the limits.
func (s Sizes) check() error {
	if !size(s.Submissions, MaxSubmissions) || !size(s.Completions, MaxCompletions) {
		return fmt.Errorf("rings of %d and %d entries: %w", s.Submissions, s.Completions, syscall.EINVAL)
	}
	return nil
}

// Format defines the sizes of the entries in the two rings of a file, in bytes. They are powers of two from 4
// to 4096, so that no entry crosses a page boundary.
type Format struct {
	Submission, Completion int
}

// layout determines where the parts of a ring file are.
type layout struct {
	Format
	Sizes
}

// size reports whether a ring can have n entries: a power of two, from MinEntries to limit.
func size(n, limit int) bool {
	return n >= MinEntries && n <= limit && bits.OnesCount(uint(n)) == 1
}

// completionsAt returns the offset of the completions.
func (l layout) completionsAt() int {
	return headerSize + (l.Submissions*l.Submission+headerSize-1)&^(headerSize-1)
}

// FileSize returns the size of a ring file in bytes, a multiple of the page size.
func (f Format) FileSize(s Sizes) int {
	return wholePages(layout{f, s}.completionsAt() + s.Completions*f.Completion)
}

// ring describes where one of the two rings is in the file.
type ring struct {
	begin, end  int    // offsets of the first entry and of the end of the last
	size, count uint32 // size of an entry, number of entries
	tail, head  int    // offsets of the counters
}

func (l layout) submissions() ring {
	return ring{headerSize, headerSize + l.Submissions*l.Submission, uint32(l.Submission), uint32(l.Submissions), offSQTail, offSQHead}
}

func (l layout) completions() ring {
	begin := l.completionsAt()
	return ring{begin, begin + l.Completions*l.Completion, uint32(l.Completion), uint32(l.Completions), offCQTail, offCQHead}
}

// fixed appends the constant part of the header: its first 28 bytes.
func (l layout) fixed(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, ringMagic)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint16(b, headerSize)
	b = binary.LittleEndian.AppendUint32(b, headerSize)
	b = binary.LittleEndian.AppendUint32(b, uint32(l.Submissions))
	b = binary.LittleEndian.AppendUint32(b, uint32(l.completionsAt()))
	b = binary.LittleEndian.AppendUint32(b, uint32(l.Completions))
	b = binary.LittleEndian.AppendUint16(b, uint16(l.Submission))
	return binary.LittleEndian.AppendUint16(b, uint16(l.Completion))
}

// decodeSizes decodes the first line of a ring file with a size of total bytes. b must be a private copy. It
// accepts only exactly the values that lnetd writes for this format and these sizes.
func (f Format) decodeSizes(b []byte, total int64) (Sizes, error) {
	s := Sizes{
		Submissions: int(binary.LittleEndian.Uint32(b[offSQEntries:])),
		Completions: int(binary.LittleEndian.Uint32(b[offCQEntries:])),
	}
	u16 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint16(b[at:])) }
	u32 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	wrong := func(name string, got uint64) (Sizes, error) {
		return Sizes{}, fmt.Errorf("ring file: %s %d: %w", name, got, errInvalidRing)
	}
	switch {
	case u32(0) != ringMagic:
		return wrong("magic", u32(0))
	case u16(offVersion) != version:
		return wrong("version", u16(offVersion))
	case u16(offHeaderSize) != headerSize:
		return wrong("header size", u16(offHeaderSize))
	case u16(offSQESize) != uint64(f.Submission):
		return wrong("submission size", u16(offSQESize))
	case u16(offCQESize) != uint64(f.Completion):
		return wrong("completion size", u16(offCQESize))
	case !size(s.Submissions, MaxSubmissions):
		return wrong("submissions", u32(offSQEntries))
	case !size(s.Completions, MaxCompletions):
		return wrong("completions", u32(offCQEntries))
	case u32(offSQ) != headerSize:
		return wrong("submissions' offset", u32(offSQ))
	case u32(offCQ) != uint64(layout{f, s}.completionsAt()):
		return wrong("completions' offset", u32(offCQ))
	case int64(f.FileSize(s)) != total:
		return wrong("file size", uint64(total))
	}
	return s, nil
}

// word returns a pointer to the counter or flag at an offset of mapped memory.
func word(b []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[at : at+4][0]))
}

// statCounter returns a pointer to the statistics value at an offset of mapped memory.
func statCounter(b []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[at : at+8][0]))
}
