package shm

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of a ring file (transport 9.4). Numbers are little endian. What is written while
// the file is in use has a line of 64 bytes to itself.
//
//	 0          4          8          12         16         20         24
//	+----------+-----+----+----------+----------+----------+----------+-----+-----+
//	| magic    | ver | hdr| SQ offset| SQ ents  | CQ offset| CQ ents  | SQe | CQe |
//	+----------+-----+----+----------+----------+----------+----------+-----+-----+
//	64   SQ tail u32      client     submissions that were put there
//	128  SQ head u32      lnetd      submissions that were taken out
//	192  CQ tail u32      lnetd      completions that were put there
//	256  CQ head u32      client     completions that were taken out
//	320  SQ sleeping u32  lnetd      1: it wants to be woken; 0 by who is going to
//	384  CQ sleeping u32  client     the same of the client
//	448  3 x u64          lnetd      submissions taken, times it lay down, bells read
//	512  2 x u64          lnetd      completions put, bells rung
//	576  SQ posted u32    lnetd      submissions that were carried out
//	640  SQ waiting u32   client     1: it waits for SQ posted; 0 by the side that wakes it
//	4096                  client     submissions
//	...                   lnetd      completions, from the next multiple of 4096
//
// Ver is 1, hdr 4096, SQe 128 and CQe 64, the sizes of entries. What is not named is 0.
// Heads and tails run freely, modulo 2^32; entry i is at place i modulo the number of
// entries. They begin where lnetd has put them, which is not at 0; SQ posted begins like
// SQ head. The figures at 448 and 512 are for display only: lnetd does not read them.
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
	offTaken      = 448
	offSleeps     = 456
	offReads      = 464
	offPut        = 512
	offRung       = 520
	offSQPosted   = 576
	offSQWaiting  = 640
)

// Bounds of Sizes. Submissions may be four times as many as completions.
const (
	MinEntries     = 2
	MaxCompletions = 1 << 16
	MaxSubmissions = 4 * MaxCompletions
)

// firstCount is what heads and tails begin with: soon enough before 2^32 that each ring
// runs over it, in tests as in service, rather than one in a hundred after a week.
const firstCount = 1<<32 - 256

// errNotOurs says that a ring file cannot be one of lnetd's.
var errNotOurs = fmt.Errorf("not what lnetd writes: %w", syscall.EPROTO)

// Sizes are the numbers of entries of both rings: powers of two within the bounds.
type Sizes struct {
	Submissions, Completions int
}

// check refuses sizes out of bounds, with EINVAL.
func (s Sizes) check() error {
	if !size(s.Submissions, MaxSubmissions) || !size(s.Completions, MaxCompletions) {
		return fmt.Errorf("shm: rings of %d and %d entries: %w", s.Submissions, s.Completions, syscall.EINVAL)
	}
	return nil
}

// size tells whether n entries, of at most limit, can be a ring.
func size(n, limit int) bool {
	return n >= MinEntries && n <= limit && bits.OnesCount(uint(n)) == 1
}

// completionsAt is where completions begin.
func (s Sizes) completionsAt() int {
	return headerSize + (s.Submissions*SubmissionSize+headerSize-1)&^(headerSize-1)
}

// FileSize is how large the ring file is, in bytes: whole pages.
func (s Sizes) FileSize() int {
	return wholePages(s.completionsAt() + s.Completions*CompletionSize)
}

// ring is where one of the two rings is in the file.
type ring struct {
	begin, end  int    // of the entries
	size, count uint32 // of an entry, and of entries
	tail, head  int    // of the counters
}

func (s Sizes) submissions() ring {
	return ring{headerSize, headerSize + s.Submissions*SubmissionSize, SubmissionSize, uint32(s.Submissions), offSQTail, offSQHead}
}

func (s Sizes) completions() ring {
	begin := s.completionsAt()
	return ring{begin, begin + s.Completions*CompletionSize, CompletionSize, uint32(s.Completions), offCQTail, offCQHead}
}

// fixed appends what does not change in the life of a file, which is its first line.
func (s Sizes) fixed(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, ringMagic)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint16(b, headerSize)
	b = binary.LittleEndian.AppendUint32(b, headerSize)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Submissions))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.completionsAt()))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Completions))
	b = binary.LittleEndian.AppendUint16(b, SubmissionSize)
	return binary.LittleEndian.AppendUint16(b, CompletionSize)
}

// decodeSizes reads a private copy of the first line of a file of total bytes, and
// believes it only if it is, field by field, what lnetd writes for the sizes in it.
func decodeSizes(b []byte, total int64) (Sizes, error) {
	s := Sizes{
		Submissions: int(binary.LittleEndian.Uint32(b[offSQEntries:])),
		Completions: int(binary.LittleEndian.Uint32(b[offCQEntries:])),
	}
	u16 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint16(b[at:])) }
	u32 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	wrong := func(name string, got uint64) (Sizes, error) {
		return Sizes{}, &lnet.FieldError{What: "ring file", Field: name, Value: got, Err: errNotOurs}
	}
	switch {
	case u32(0) != ringMagic:
		return wrong("magic", u32(0))
	case u16(offVersion) != version:
		return wrong("version", u16(offVersion))
	case u16(offHeaderSize) != headerSize:
		return wrong("header size", u16(offHeaderSize))
	case u16(offSQESize) != SubmissionSize:
		return wrong("submission size", u16(offSQESize))
	case u16(offCQESize) != CompletionSize:
		return wrong("completion size", u16(offCQESize))
	case !size(s.Submissions, MaxSubmissions):
		return wrong("submissions", u32(offSQEntries))
	case !size(s.Completions, MaxCompletions):
		return wrong("completions", u32(offCQEntries))
	case u32(offSQ) != headerSize:
		return wrong("submissions' offset", u32(offSQ))
	case u32(offCQ) != uint64(s.completionsAt()):
		return wrong("completions' offset", u32(offCQ))
	case int64(s.FileSize()) != total:
		return wrong("file size", uint64(total))
	}
	return s, nil
}

// word is the counter or flag at an offset of mapped memory.
func word(b []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[at : at+4][0]))
}

// figure is a u64 that is there to be looked at.
func figure(b []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[at : at+8][0]))
}
