package shared

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// lane is one ring with both its ends. Its entries have numbers.
type lane struct {
	producer *Producer
	consumer *Consumer
}

func (l lane) put(n uint32) (bool, error)           { return put(l.producer, n) }
func (l lane) next() (n uint32, ok bool, err error) { return next(l.consumer) }

// lanes returns both rings of a pair, with counters that begin the given number of entries before 2^32.
func lanes(h *Host, c *Client, before uint32) []lane {
	all := []lane{
		{&c.Submissions.Producer, &h.Submissions.Consumer},
		{&h.Completions.Producer, &c.Completions.Consumer},
	}
	for _, l := range all {
		p, q := l.producer, l.consumer
		p.next, p.published, p.head = -before, -before, -before
		q.next, q.tail = -before, -before
		q.released.Store(-before)
		p.sharedTail.Store(-before)
		p.sharedHead.Store(-before)
	}
	return all
}

// Batches of any size, put and removed in any order, compared with a list, across 2^32. Published entries
// are removed in order; no others are. Entries that were not released use room.
func TestRingIsAQueue(t *testing.T) {
	h, c := newPair(t, 16, 4)
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.Uint32Range(0, 64).Draw(t, "before")
		for _, l := range lanes(h, c, before) {
			count := int(l.producer.count)
			var put, published, taken, released int
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"put", "publish", "take", "release"}).Draw(t, "step") {
				case "put":
					for range rapid.IntRange(1, count+1).Draw(t, "batch") {
						ok, err := l.put(uint32(put))
						if err != nil || ok != (put-released < count) {
							t.Fatalf("%d of %d are there: put %v, %v", put-released, count, ok, err)
						}
						if ok {
							put++
						}
					}
				case "publish":
					l.producer.Publish()
					published = put
				case "take":
					for range rapid.IntRange(1, count+1).Draw(t, "batch") {
						n, ok, err := l.next()
						if err != nil || ok != (taken < published) || ok && n != uint32(taken) {
							t.Fatalf("%d of %d taken: got %d, %v, %v", taken, published, n, ok, err)
						}
						if ok {
							taken++
						}
					}
				case "release":
					l.consumer.Release()
					released = taken
				}
				if room, err := l.producer.Room(); err != nil || room != count-(put-released) {
					t.Fatalf("room for %d, %v, want %d", room, err, count-(put-released))
				}
				if l.consumer.Pending() != (released < published) {
					t.Fatalf("pending: %v, with %d of %d released", l.consumer.Pending(), released, published)
				}
			}
		}
	})
}

// Counters begin shortly before 2^32, so that every ring wraps around.
//
// transport 9.4
func TestCountersBeginNearTheEnd(t *testing.T) {
	h, c := newPair(t, 2, 2)
	if at := c.Submissions.next; at != math.MaxUint32-255 || c.Completions.next != at || h.Completions.next != at || h.Submissions.next != at {
		t.Errorf("counters begin at %#x", at)
	}
}

// Invalid values that a hostile other side writes to its counter cause an error at the next check, never
// nonexistent entries or room.
//
// transport 9.9 (2)
func TestImpossibleCounters(t *testing.T) {
	h, c := newPair(t, 16, 16)
	for _, before := range []uint32{0, 5, 1 << 31} {
		for i := range lanes(h, c, before) {
			for _, off := range []uint32{17, 18, 1 << 20, 1 << 31, math.MaxUint32, math.MaxUint32 - 5} {
				l := lanes(h, c, before)[i]
				l.producer.sharedTail.Add(off)
				if n, ok, err := l.next(); ok || !errors.Is(err, ErrRing) || !errors.Is(err, syscall.EPROTO) {
					t.Errorf("tail moved by %#x: took %d, %v, %v", off, n, ok, err)
				}
				l = lanes(h, c, before)[i]
				l.producer.sharedHead.Add(off)
				room, err := l.producer.Room()
				if !errors.Is(err, ErrRing) || room != 0 {
					t.Errorf("head moved by %#x: room for %d, %v", off, room, err)
				}
				for n := range l.producer.count {
					if ok, err := l.put(n); !ok || err != nil {
						t.Errorf("head moved by %#x: no place of %d: %v", off, n, err)
					}
				}
				if ok, err := l.put(1); ok || !errors.Is(err, ErrRing) {
					t.Errorf("head moved by %#x: put %v, %v", off, ok, err)
				}
			}
		}
	}
}

// The other side may remove only published entries, regardless of the size of the ring. An entry that was
// put but not published does not exist for it yet.
//
// transport 9.9 (2)
func TestHeadIsBoundByWhatWasPublished(t *testing.T) {
	h, c := newPair(t, 16, 16)
	for i := range lanes(h, c, 3) {
		for _, x := range []struct {
			published, put uint32
			head           uint32 // relative to the start
			room           int    // -1 means that the head is invalid
		}{
			{0, 0, 0, 16},
			{0, 0, 1, -1},
			{0, 0, 16, -1},
			{0, 3, 0, 13},
			{0, 3, 1, -1},
			{5, 5, 5, 16},
			{5, 5, 4, 15},
			{5, 5, 6, -1},
			{5, 7, 5, 14},
			{5, 7, 6, -1},
			{16, 16, 0, 0},
			{16, 16, 16, 16},
			{16, 16, 17, -1},
		} {
			l := lanes(h, c, 3)[i]
			begin := l.producer.sharedHead.Load()
			for n := range x.put {
				if n == x.published {
					l.producer.Publish()
				}
				_, _ = l.put(n)
			}
			if x.put == x.published {
				l.producer.Publish()
			}
			l.producer.sharedHead.Store(begin + x.head)
			room, err := l.producer.Room()
			if x.room < 0 && !errors.Is(err, ErrRing) || x.room >= 0 && (err != nil || room != x.room) {
				t.Errorf("%d of %d published, %d taken: room for %d, %v", x.published, x.put, x.head, room, err)
			}
		}
	}
}

// A tail that moves back before removed entries, or a head that moves back before its last value, is an
// error, too.
func TestCountersThatGoBack(t *testing.T) {
	h, c := newPair(t, 4, 4)
	for _, l := range lanes(h, c, 2) {
		for n := range uint32(4) {
			_, _ = l.put(n)
		}
		l.producer.Publish()
		for range 3 {
			_, _, _ = l.next()
		}
		l.consumer.tail = l.consumer.next // forces a load of the counter
		tail := l.producer.sharedTail
		for name, at := range map[string]uint32{"back": tail.Load() - 3, "on where nothing was released": tail.Load() + 1} {
			tail.Store(at)
			if _, ok, err := l.next(); ok || !errors.Is(err, ErrRing) {
				t.Errorf("tail went %s: %v, %v", name, ok, err)
			}
		}
	}
	for _, l := range lanes(h, c, 2) {
		for n := range uint32(4) {
			_, _ = l.put(n)
		}
		l.producer.Publish()
		_, _, _ = l.next()
		_, _, _ = l.next()
		l.consumer.Release()
		if room, err := l.producer.Room(); room != 2 || err != nil {
			t.Fatalf("room for %d, %v", room, err)
		}
		l.producer.sharedHead.Add(math.MaxUint32)
		if room, err := l.producer.Room(); room != 0 || !errors.Is(err, ErrRing) {
			t.Errorf("head went back: room for %d, %v", room, err)
		}
	}
}

// A client overwrites its entries, its counters and lnetd's own counters while lnetd reads them. lnetd
// continues by its private counters, and gets an entry or an error.
//
// transport 9.9 (1)
func TestEntriesThatChangeMeanwhile(t *testing.T) {
	h, c := newPair(t, 16, 16)
	var stop, stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		b := c.memory.Bytes()
		for i := uint32(1); ; i = i*1664525 + 1013904223 {
			select {
			case <-stop:
				return
			default:
			}
			for _, at := range []int{offSQHead, offCQTail, offSQSleeping, offCQSleeping} {
				word(b, at).Store(i)
			}
			word(b, offSQTail).Store(firstCount + i%32)
			word(b, offCQHead).Store(firstCount - i%4)
			for at := headerSize; at < headerSize+16*format.Submission; at += 4 {
				word(b, at).Store(i >> (i % 29) & 0x00010101)
			}
		}
	}()
	var entries, rings int
	for rings < 20 || entries < 20 {
		_, ok, err := next(&h.Submissions.Consumer)
		switch {
		case ok && err == nil:
			entries++
		case errors.Is(err, ErrRing):
			rings++
		case err != nil:
			t.Fatal(err)
		}
		h.Submissions.Release()
		if n, err := h.Completions.Room(); err == nil && n != 16 {
			t.Fatalf("room for %d of 16", n)
		}
		if q := &h.Submissions; q.next-firstCount > 16 { // where the client's counter can be
			q.next, q.tail = firstCount, firstCount
			q.released.Store(firstCount)
		}
		runtime.Gosched()
	}
	close(stop)
	<-stopped
}

// No entry crosses a page, or more cache lines than necessary.
//
// r.m0.net.xprt.lnet.aligned-objects
func TestEntriesStayOnAPage(t *testing.T) {
	for _, s := range []Sizes{{2, 2}, {64, 16}, {2, MaxCompletions}, {MaxSubmissions, 2}} {
		for _, ring := range []struct {
			name              string
			at, entries, size int
		}{
			{"submissions", headerSize, s.Submissions, format.Submission},
			{"completions", layout{format, s}.completionsAt(), s.Completions, format.Completion},
		} {
			for n := range ring.entries {
				first := ring.at + n*ring.size
				if first%ring.size != 0 || first/4096 != (first+ring.size-1)/4096 {
					t.Fatalf("%+v: entry %d of the %s is at %d", s, n, ring.name, first)
				}
			}
		}
	}
}

// Both processes see the sizes that the rings were created with.
func TestSizesOfRings(t *testing.T) {
	for _, s := range []Sizes{{2, 2}, {8, 2}, {64, 16}, {2, 1 << 16}, {1 << 18, 2}} {
		h, files, err := format.Create(s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		c, err := format.Attach(files)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		if c.Sizes() != s || format.FileSize(s)%os.Getpagesize() != 0 {
			t.Errorf("%+v became %+v, of %d bytes", s, c.Sizes(), format.FileSize(s))
		}
		finish(t, h, c)
	}
	before := open(t)
	for _, s := range []Sizes{{0, 2}, {2, 0}, {1, 2}, {2, 1}, {3, 2}, {2, 6}, {1 << 19, 2}, {2, 1 << 17}, {-2, 2}, {2, math.MinInt}} {
		if h, _, err := format.Create(s); !errors.Is(err, syscall.EINVAL) || h != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// Each field of the header with an unexpected value is refused by name, and all files are closed.
//
// transport 9.4
func TestRejectedHeaders(t *testing.T) {
	before := open(t)
	var at int // the changed offset
	for _, c := range []struct {
		field string
		at    int
		value uint32
	}{
		{"magic", 0, ringMagic + 1}, {"version", offVersion, 2 | headerSize<<16}, {"header size", offVersion, 1 | 64<<16},
		{"submissions' offset", offSQ, 8192}, {"submissions", offSQEntries, 0}, {"submissions", offSQEntries, 12},
		{"submissions", offSQEntries, 1 << 19}, {"submissions", offSQEntries, 1 << 31}, {"file size", offSQEntries, 1 << 18},
		{"completions' offset", offCQ, headerSize}, {"completions", offCQEntries, 1}, {"completions", offCQEntries, 1 << 17},
		{"file size", offCQEntries, 1 << 16}, {"submission size", offSQESize, 64 | 64<<16}, {"completion size", offSQESize, 128 | 128<<16},
	} {
		h, files, err := format.Create(Sizes{16, 16})
		if err != nil {
			t.Fatal(err)
		}
		at = c.at
		word(h.memory.Bytes(), at).Store(c.value)
		if c.field == "file size" && c.at == offSQEntries { // so that this check is reached
			word(h.memory.Bytes(), offCQ).Store(uint32(layout{format, Sizes{1 << 18, 16}}.completionsAt()))
		}
		_, err = format.Attach(files)
		checkField(t, err, c.field)
		if !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%v is not EPROTO", err)
		}
		finish(t, h)
	}
	for _, c := range []struct {
		at    int
		value uint32
	}{{offSQTail, firstCount + 1}, {offSQHead, firstCount + 1}, {offCQTail, firstCount + 17}, {offCQHead, firstCount + 1}} {
		h, files := newHost(t, 16, 16)
		word(h.memory.Bytes(), c.at).Store(c.value)
		if _, err := format.Attach(files); !errors.Is(err, ErrRing) {
			t.Errorf("counter at %d is %#x: %v", c.at, c.value, err)
		}
		finish(t, h)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// Completions that precede the client's attachment are not lost.
func TestCompletionsBeforeTheClient(t *testing.T) {
	h, files := newHost(t, 2, 2)
	for n := range uint32(2) {
		must[bool](t)(put(&h.Completions.Producer, n))
	}
	h.Completions.Publish()
	c, err := format.Attach(files)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, c)
	for n := range uint32(2) {
		if got, ok, err := next(&c.Completions.Consumer); !ok || err != nil || got != n {
			t.Errorf("%d: %d, %v, %v", n, got, ok, err)
		}
	}
}

// Descriptors of a wrong type, in each of the places, are refused and closed.
func TestRejectedFiles(t *testing.T) {
	before := open(t)
	pipe := func() int {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		shut(p[1])
		return p[0]
	}
	seal := unix.F_SEAL_SHRINK
	for name, change := range map[string]func(f *Files){
		"a pipe for a ring":          func(f *Files) { shut(f.Ring); f.Ring = pipe() },
		"a ring that can shrink":     func(f *Files) { shut(f.Ring); f.Ring = memfd(t, 0, 8192, 0) },
		"a ring of one page":         func(f *Files) { shut(f.Ring); f.Ring = memfd(t, 0, 4096, seal) },
		"a ring that is too long":    func(f *Files) { shut(f.Ring); f.Ring = memfd(t, 0, 1<<30, seal) },
		"a pipe for submissions":     func(f *Files) { shut(f.Submissions); f.Submissions = pipe() },
		"no bell for submissions":    func(f *Files) { shut(f.Submissions); f.Submissions = -1 },
		"an eventfd for completions": func(f *Files) { shut(f.Completions); f.Completions, _ = unix.Dup(f.Submissions) },
		"no bell for completions":    func(f *Files) { shut(f.Completions); f.Completions = -1 },
		"another kind of socket": func(f *Files) {
			shut(f.Completions)
			f.Completions = must[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
		},
	} {
		h, files, err := format.Create(Sizes{16, 16})
		if err != nil {
			t.Fatal(err)
		}
		change(&files)
		if c, err := format.Attach(files); err == nil || c != nil {
			t.Errorf("%s: attached", name)
		}
		finish(t, h)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// The statistics in the header match Stats, whose values the other side cannot overwrite.
func TestStatisticsInTheHeader(t *testing.T) {
	h, c := newPair(t, 16, 16)
	for range 3 {
		must[bool](t)(put(&c.Submissions.Producer, 0))
		must[bool](t)(put(&h.Completions.Producer, 0))
	}
	c.Submissions.Publish()
	h.Completions.Publish()
	for range 3 {
		if _, ok, err := next(&h.Submissions.Consumer); !ok {
			t.Fatal(err)
		}
	}
	h.Submissions.Release()
	b := c.memory.Bytes()
	if taken, put := binary.LittleEndian.Uint64(b[offReleased:]), binary.LittleEndian.Uint64(b[offPut:]); taken != 3 || put != 3 {
		t.Errorf("%d taken and %d put", taken, put)
	}
	if taken, put := c.HostStats(); taken != (ConsumerStats{Released: 3}) || put != (ProducerStats{Put: 3}) {
		t.Errorf("the client sees %+v and %+v", taken, put)
	}
	clear(b[offReleased:600])
	if got, want := h.Submissions.Stats(), (ConsumerStats{Released: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := h.Completions.Stats(), (ProducerStats{Put: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
