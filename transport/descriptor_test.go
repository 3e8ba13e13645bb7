package transport

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// The vectors of transport 6.6 and of the large layout.
var descriptorVectors = []struct {
	address string
	counter uint64
	queue   QueueType
	size    int
	bytes   string
}{
	{
		"10.72.49.14@tcp:12345:34:12", 1, PassiveBulkSend, 4096,
		"010000000000c000 0e31480a00000200 3930000022000000 0c00000003000000 0010000000000000 3a11480a2100c200",
	},
	{
		"0@lo:12345:30:4095", MaxCounter, PassiveBulkRecv, 1048576,
		"ffffffffffffffff 0000000000000900 393000001e000000 ff0f000002000000 0000100000000000 39c0efffe3fff6ff",
	},
	{
		"192.168.96.128@o2ib1:12345:39:1", 0x123456789, PassiveBulkSend, 1,
		"8967452301001000 8060a8c001000500 3930000027000000 0100000003000000 0100000000000000 3037ede324001500",
	},
	{
		"2001:db8::10@tcp1:12345:34:12", 1, PassiveBulkSend, 4096,
		"4c544d4401000000 010000000000c000 0c02000120010db8 0000000000000000 0000001039300000 2200000003000000 0010000000000000 63464d551b31cdb8",
	},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Descriptors equal the test vectors byte by byte.
//
// transport-tests B (14)
// transport 6.6 (1), 6.6 (4)
func TestDescriptorVectors(t *testing.T) {
	for _, tt := range descriptorVectors {
		t.Run(tt.address, func(t *testing.T) {
			a := mustAddress(t, tt.address)
			p := Passive{Address: a, MatchBits: MakeMatchBits(a.TMID, tt.counter), Queue: tt.queue, Size: tt.size}
			want := unhex(t, tt.bytes)
			prefix := []byte("before")
			if got := p.AppendDescriptor(prefix); !bytes.Equal(got[len(prefix):], want) || string(got[:len(prefix)]) != "before" {
				t.Fatalf("\n% x, want\n% x", got[len(prefix):], want)
			}
			if got, err := Descriptor(want).Decode(); err != nil || got != p {
				t.Fatalf("%+v, %v, want %+v", got, err, p)
			}
		})
	}
}

// A decoded descriptor equals what was encoded. A descriptor with one damaged bit is refused.
//
// transport 6.6 (1), 6.6 (4)
func TestDescriptorsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPassive().Draw(t, "passive")
		d := Descriptor(p.AppendDescriptor(nil))
		if want := map[bool]int{false: DescriptorSize, true: LargeDescriptorSize}[p.Address.NID.IsLarge()]; len(d) != want {
			t.Fatalf("%d bytes, want %d", len(d), want)
		}
		if got, err := d.Decode(); err != nil || got != p {
			t.Fatalf("%+v, %v, want %+v", got, err, p)
		}
		d[rapid.IntRange(0, len(d)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, err := d.Decode(); !errors.Is(err, syscall.EINVAL) || got != (Passive{}) {
			t.Fatalf("damaged: %+v, %v", got, err)
		}
	})
}

// A descriptor has the PID of a node, or that of an MPI application.
//
// decisions 244
func TestPIDOfADescriptor(t *testing.T) {
	for pid, want := range map[lnet.PID]bool{
		lnet.PIDLustre: true, lnet.PIDUserFlag | 5: true, lnet.PIDUserFlag | 1<<28: false, 5: false, 0: false, lnet.PIDAny: false,
	} {
		a := mustAddress(t, "10.0.0.1@tcp:12345:34:7")
		a.PID = pid
		p := Passive{Address: a, MatchBits: MakeMatchBits(a.TMID, 1), Queue: PassiveBulkSend, Size: 1}
		if got, err := Descriptor(p.AppendDescriptor(nil)).Decode(); (err == nil) != want || want && got != p {
			t.Errorf("PID %s: %+v, %v", pid, got, err)
		}
	}
}

// Decode refuses random bytes, or accepts only what encodes to the same bytes.
//
// transport-tests B (15)
// transport 6.6 (2)
func TestAnyBytesAsDescriptor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Descriptor(rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 100), rapid.SliceOfN(rapid.Byte(), DescriptorSize, DescriptorSize),
			rapid.SliceOfN(rapid.Byte(), LargeDescriptorSize, LargeDescriptorSize),
		).Draw(t, "bytes"))
		if len(d) >= checksumSize && rapid.Bool().Draw(t, "checksum") {
			seal(d)
		}
		p, err := d.Decode()
		switch {
		case err != nil && (p != Passive{} || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EFBIG)):
			t.Fatalf("%+v, %v", p, err)
		case err == nil && !bytes.Equal(p.AppendDescriptor(nil), d):
			t.Fatalf("% x became % x", d, p.AppendDescriptor(nil))
		}
	})
	good := unhex(t, descriptorVectors[0].bytes)
	for _, d := range []Descriptor{nil, {}, good[:47], append(good[:48:48], 0), make(Descriptor, 63), make(Descriptor, 65)} {
		if p, n, err := d.transfer(ActiveBulkRecv, lnet.MTU, 0); !errors.Is(err, syscall.EINVAL) || p != (Passive{}) || n != 0 {
			t.Errorf("%d bytes: %+v, %d, %v", len(d), p, n, err)
		}
	}
}

// seal sets the correct checksum in d.
func seal(d Descriptor) {
	words := d[:len(d)-checksumSize]
	binary.LittleEndian.PutUint64(d[len(words):], checksum(words))
}

// Offsets of the fields in the layouts of 48 and 64 bytes.
var smallFields, largeFields = fields{0, 16, 20, 28, 32}, fields{8, 36, 40, 44, 48}

type fields struct{ matchBits, pid, portal, queue, size int }

// A descriptor with several faults is refused for the one that is checked first.
//
// transport 3.16, 6.6 (2)
func TestChecksOfDescriptors(t *testing.T) {
	le := binary.LittleEndian
	const room = 8192
	// In the order of the checks. Each entry damages d. If several damages are applied, the first one in
	// this list is reported. An entry without an errno is not a damage.
	checks := []struct {
		name   string
		errno  syscall.Errno
		damage func(d Descriptor, f fields) Descriptor
	}{
		{"length", syscall.EINVAL, func(d Descriptor, _ fields) Descriptor { return d[:len(d)-1] }},
		{"checksum", syscall.EINVAL, func(d Descriptor, _ fields) Descriptor { d[len(d)-1] ^= 1; return d }},
		{"queue", syscall.EPERM, func(d Descriptor, f fields) Descriptor { d[f.queue] ^= 1; return d }},
		{"size", syscall.EFBIG, func(d Descriptor, f fields) Descriptor { le.PutUint64(d[f.size:], room+1); return d }},
		{"counter", syscall.EINVAL, func(d Descriptor, f fields) Descriptor {
			le.PutUint64(d[f.matchBits:], uint64(MakeMatchBits(12, 0)))
			return d
		}},
	}
	for _, v := range []int{0, 3} {
		good, f := Descriptor(unhex(t, descriptorVectors[v].bytes)), smallFields
		if v == 3 {
			f = largeFields
		}
		if _, n, err := good.transfer(ActiveBulkRecv, room, 0); err != nil || n != 4096 {
			t.Fatalf("good: %d, %v", n, err)
		}
		for i, c := range checks {
			d := bytes.Clone(good)
			for k := len(checks) - 1; k >= i; k-- {
				if d = checks[k].damage(d, f); k > 1 {
					seal(d)
				}
			}
			if p, n, err := Descriptor(d).transfer(ActiveBulkRecv, room, 0); !errors.Is(err, c.errno) || p != (Passive{}) || n != 0 {
				t.Errorf("%s: %+v, %d, %v", c.name, p, n, err)
			}
		}
	}
}

// Descriptors with a valid checksum but an invalid field are refused.
//
// transport 6.6 (3)-(4)
func TestInvalidDescriptors(t *testing.T) {
	le := binary.LittleEndian
	put32 := func(at int, v uint32) func(Descriptor) { return func(d Descriptor) { le.PutUint32(d[at:], v) } }
	put64 := func(at int, v uint64) func(Descriptor) { return func(d Descriptor) { le.PutUint64(d[at:], v) } }
	s, l := smallFields, largeFields
	for _, tt := range []struct {
		name   string
		vector int
		damage func(Descriptor)
		errno  syscall.Errno
	}{
		{"queue 0", 0, put32(s.queue, 0), syscall.EINVAL},
		{"queue 4", 0, put32(s.queue, 4), syscall.EINVAL},
		{"queue 0x103", 0, put32(s.queue, 0x103), syscall.EINVAL},
		{"counter 0", 0, put64(s.matchBits, uint64(MakeMatchBits(12, 0))), syscall.EINVAL},
		{"another TM", 0, put32(24, 13), syscall.EINVAL},
		{"a TM beyond 16 bits", 0, put32(24, 1<<16|12), syscall.EINVAL},
		{"no TM", 0, func(d Descriptor) { le.PutUint64(d[s.matchBits:], 1); le.PutUint32(d[24:], 0) }, syscall.EINVAL},
		{"size 0", 0, put64(s.size, 0), syscall.EINVAL},
		{"size of 1 MiB and a byte", 0, put64(s.size, lnet.MTU+1), syscall.EFBIG},
		{"size of 64 bits", 0, put64(s.size, math.MaxUint64), syscall.EFBIG},
		{"PID", 0, put32(s.pid, 12346), syscall.EINVAL},
		{"portal 0", 0, put32(s.portal, 0), syscall.EINVAL},
		{"portal 64", 0, put32(s.portal, 64), syscall.EINVAL},
		{"no NID", 0, put64(8, 0), syscall.EINVAL},
		{"any NID", 0, put64(8, math.MaxUint64), syscall.EINVAL},
		{"reserved bits of a NID", 0, put64(8, 0x01020000c0a8010a), syscall.EINVAL},
		{"magic", 3, put32(0, largeMagic^1), syscall.EINVAL},
		{"version", 3, put32(4, largeVersion+1), syscall.EINVAL},
		{"no TM, large", 3, put64(l.matchBits, 1), syscall.EINVAL},
		{"portal, large", 3, put32(l.portal, 64), syscall.EINVAL},
		{"a NID of 4 bytes, large", 3, func(d Descriptor) { copy(d[16:36], mustNID(t, "10.0.0.1@tcp").AppendLarge(nil)) }, syscall.EINVAL},
		{"any NID, large", 3, func(d Descriptor) { copy(d[16:36], lnet.AnyNID.AppendLarge(nil)) }, syscall.EINVAL},
		{"a NID of 5 bytes, large", 3, func(d Descriptor) { d[16] = 1 }, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Descriptor(unhex(t, descriptorVectors[tt.vector].bytes))
			tt.damage(d)
			seal(d)
			if p, err := d.Decode(); !errors.Is(err, tt.errno) || p != (Passive{}) {
				t.Errorf("decodes to %+v, %v", p, err)
			}
			if p, n, err := d.transfer(ActiveBulkRecv, math.MaxInt, 0); !errors.Is(err, tt.errno) || p != (Passive{}) || n != 0 {
				t.Errorf("transfers %+v, %d, %v", p, n, err)
			}
		})
	}
}

// The number of bytes that an active buffer transfers follows from its length and the size of the passive
// buffer, or the transfer is refused.
//
// transport 3.16, 6.6 (2)
func TestTransferSize(t *testing.T) {
	descriptor := func(q QueueType) Descriptor {
		p := Passive{Address: mustAddress(t, "10.0.0.1@tcp:12345:34:1"), MatchBits: MakeMatchBits(1, 1), Queue: q, Size: 5000}
		return p.AppendDescriptor(nil)
	}
	for _, tt := range []struct {
		name         string
		passive      QueueType
		active       QueueType
		room, length int
		n            int
		errno        syscall.Errno
	}{
		{"fetch all, whatever the length", PassiveBulkSend, ActiveBulkRecv, 8192, 1, 5000, 0},
		{"fetch into as much", PassiveBulkSend, ActiveBulkRecv, 5000, 0, 5000, 0},
		{"fetch into less", PassiveBulkSend, ActiveBulkRecv, 4999, 0, 0, syscall.EFBIG},
		{"fill a part", PassiveBulkRecv, ActiveBulkSend, 8192, 3000, 3000, 0},
		{"fill all", PassiveBulkRecv, ActiveBulkSend, 8192, 5000, 5000, 0},
		{"fill too much", PassiveBulkRecv, ActiveBulkSend, 8192, 5001, 0, syscall.EFBIG},
		{"fetch what is to be filled", PassiveBulkRecv, ActiveBulkRecv, 8192, 0, 0, syscall.EPERM},
		{"fill what is to be fetched", PassiveBulkSend, ActiveBulkSend, 8192, 3000, 0, syscall.EPERM},
		{"a queue that is not active", PassiveBulkSend, MsgSend, 8192, 3000, 0, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := descriptor(tt.passive).transfer(tt.active, tt.room, tt.length)
			if n != tt.n || (tt.errno == 0) != (err == nil) || err != nil && !errors.Is(err, tt.errno) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// Encoding a descriptor and checking it allocates nothing.
func TestDescriptorsAllocateNothing(t *testing.T) {
	p, err := Descriptor(unhex(t, descriptorVectors[0].bytes)).Decode()
	if err != nil {
		t.Fatal(err)
	}
	var b Descriptor = make([]byte, 0, LargeDescriptorSize)
	if n := testing.AllocsPerRun(100, func() {
		b = p.AppendDescriptor(b[:0])
		if _, _, err := b.transfer(ActiveBulkRecv, lnet.MTU, 0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A copy of a descriptor belongs to the program: the next add of the buffer leaves it unchanged and creates
// another one.
//
// transport-tests C (29)
// transport 3.15 (1)
func TestCopyOfADescriptor(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.added(PassiveBulkSend)
		kept := bytes.Clone(b.Descriptor)
		before, err := Descriptor(kept).Decode()
		w.ok(err)
		w.fake.finish(b, 1)
		synctest.Wait()
		w.ok(w.tm.Add(b))
		after, err := b.Descriptor.Decode()
		w.ok(err)
		if again, err := Descriptor(kept).Decode(); err != nil || again != before || after.MatchBits == before.MatchBits {
			t.Errorf("the copy is %+v, %v; it was %+v, and the next one is %+v", again, err, before, after)
		}
		clear(kept)
		if again, err := b.Descriptor.Decode(); err != nil || again != after {
			t.Errorf("it is %+v, %v when a copy was cleared", again, err)
		}
	})
}
