package memory

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// device registers memory, and counts its registrations.
type device struct {
	mu       sync.Mutex
	mappings []*mapping
	err      error // result of the next Register
}

type mapping struct {
	device *device
	bytes  []byte
	err    error // result of Release
}

func (d *device) Register(b []byte) (Registration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	m := &mapping{device: d, bytes: b}
	d.mappings = append(d.mappings, m)
	return m, nil
}

func (m *mapping) Release() error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mappings = slices.DeleteFunc(d.mappings, func(o *mapping) bool { return o == m })
	return m.err
}

func (d *device) registrations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mappings)
}

func register(t *testing.T, r *Region, by ...*device) {
	t.Helper()
	for _, d := range by {
		if err := r.Register(d); err != nil {
			t.Fatal(err)
		}
	}
}

// A region has one registration with each interface that has registered it.
func TestRegionRegistrations(t *testing.T) {
	a, b, c := new(device), new(device), new(device)
	r := NewRegion(make([]byte, 100), nil)
	if r.Registration(a) != nil {
		t.Error("registered from the start")
	}
	register(t, r, a, b)
	if r.Registration(a) != Registration(a.mappings[0]) || r.Registration(b) != Registration(b.mappings[0]) || r.Registration(c) != nil {
		t.Errorf("a: %v, b: %v, c: %v", r.Registration(a), r.Registration(b), r.Registration(c))
	}
	if got := len(b.mappings[0].bytes); got != 100 {
		t.Errorf("%d bytes are registered, want 100", got)
	}
	c.err = errors.New("full")
	if err := r.Register(c); !errors.Is(err, c.err) || r.Registration(c) != nil {
		t.Errorf("%v, %v", err, r.Registration(c))
	}
	r.Deregister(a)
	r.Deregister(c)
	if r.Registration(a) != nil || r.Registration(b) == nil {
		t.Error("the wrong one is forgotten")
	}
	if a.registrations() != 1 {
		t.Error("who is forgotten was asked")
	}
}

// Segments of a region know the region and its registrations. Other memory belongs to no region.
func TestRegionSegments(t *testing.T) {
	d := new(device)
	r := NewRegion([]byte("0123456789"), nil)
	register(t, r, d)
	v := Vector{Segments: []Segment{{Bytes: []byte("ab")}, r.Segment(3, 4)}, Offset: 1, Length: 4}
	list := v.AppendSegments(nil)
	if len(list) != 2 || string(list[0].Bytes) != "b" || string(list[1].Bytes) != "345" {
		t.Fatalf("%+v", list)
	}
	if list[0].Region() != nil || list[0].Registration(d) != nil {
		t.Error("memory of no region is registered")
	}
	if list[1].Region() != r || list[1].Registration(d) == nil {
		t.Error("memory of a region is not registered")
	}
	if got := r.Slice(2, 5).AppendSegments(nil); len(got) != 1 || string(got[0].Bytes) != "23456" || got[0].Region() != r {
		t.Errorf("%+v", got)
	}
	for _, c := range [][2]int{{-1, 2}, {0, 11}, {10, 1}, {3, -1}} {
		for what, cut := range map[string]func(){
			"Slice":   func() { r.Slice(c[0], c[1]) },
			"Segment": func() { r.Segment(c[0], c[1]) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s(%d, %d) of 10 bytes is taken", what, c[0], c[1])
					}
				}()
				cut()
			}()
		}
	}
}

// A region cannot be released while a vector pins it.
func TestRegionReleaseInUse(t *testing.T) {
	a, b := new(device), new(device)
	told := 0
	r := NewRegion(make([]byte, 10), func() { told++ })
	other := NewRegion(make([]byte, 10), nil)
	register(t, r, a, b)
	v := Vector{Segments: []Segment{r.Segment(0, 2), other.Segment(0, 5), r.Segment(5, 2)}, Length: 9}
	if err := v.Pin(); err != nil {
		t.Fatal(err)
	}
	if err := r.Release(); !errors.Is(err, ErrInUse) || a.registrations() != 1 || told != 0 {
		t.Errorf("release of what is used: %v, %d held, told %d times", err, a.registrations(), told)
	}
	v.Unpin()
	stuck := errors.New("stuck")
	b.mappings[0].err = stuck
	if err := r.Release(); !errors.Is(err, stuck) || a.registrations()+b.registrations() != 0 || told != 1 {
		t.Errorf("release: %v, %d and %d held, told %d times", err, a.registrations(), b.registrations(), told)
	}
	if err := r.Release(); !errors.Is(err, ErrReleased) || told != 1 {
		t.Errorf("second release: %v, told %d times", err, told)
	}
	if err := v.Pin(); !errors.Is(err, ErrReleased) {
		t.Errorf("use of what was released: %v", err)
	}
	behind := Vector{Segments: []Segment{v.Segments[1], v.Segments[0]}, Length: 7}
	if err := behind.Pin(); !errors.Is(err, ErrReleased) {
		t.Errorf("use of what was released, behind what was not: %v", err)
	}
	if err := other.Release(); err != nil { // the failed Pin has undone its part
		t.Error(err)
	}
	if err := r.Register(a); !errors.Is(err, ErrReleased) || a.registrations() != 0 {
		t.Errorf("registration of what was released: %v, %d held", err, a.registrations())
	}
	r.Deregister(a)
}

// End ends a region and its registrations without the callback, even while a vector pins the region.
func TestRegionEndsWithItsOwner(t *testing.T) {
	d := new(device)
	r := NewRegion(make([]byte, 10), func() { t.Error("told of what its owner did") })
	register(t, r, d)
	v := r.Slice(0, 10)
	if err := v.Pin(); err != nil {
		t.Fatal(err)
	}
	r.End()
	v.Unpin()
	if err := r.Release(); !errors.Is(err, ErrReleased) {
		t.Error(err)
	}
	if r.Registration(d) != nil {
		t.Error("still registered")
	}
}

// Interfaces are added and removed, and messages look registrations up, while a region
// ends. No registration remains.
func TestRegionRaces(t *testing.T) {
	for range 200 {
		var devices [4]device
		r := NewRegion(make([]byte, 10), nil)
		var wg sync.WaitGroup
		for k := range devices {
			d := &devices[k]
			wg.Go(func() {
				if err := r.Register(d); err != nil && !errors.Is(err, ErrReleased) {
					t.Error(err)
				}
			})
			wg.Go(func() { r.Deregister(new(device)); r.Registration(d) })
			wg.Go(func() {
				v := r.Slice(0, 1)
				if v.Pin() == nil {
					v.Unpin()
				}
			})
		}
		wg.Go(func() {
			for errors.Is(r.Release(), ErrInUse) {
			}
		})
		wg.Wait()
		for k := range devices {
			if n := devices[k].registrations(); n != 0 {
				t.Fatalf("device %d holds %d registrations", k, n)
			}
		}
	}
}

// Release, while the last descriptor is released, either returns ErrInUse or ends the
// region.
func TestReleaseDuringLastUnpin(t *testing.T) {
	for range 5000 {
		r := NewRegion(make([]byte, 10), nil)
		v := r.Slice(0, 1)
		if err := v.Pin(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(v.Unpin)
		err := r.Release()
		for errors.Is(err, ErrInUse) {
			err = r.Release()
		}
		wg.Wait()
		if err != nil {
			t.Fatalf("the first release that is not too early: %v", err)
		}
	}
}

// Pinning a vector and finding its registrations allocates nothing.
func TestRegistrationDoesNotAllocate(t *testing.T) {
	a, b := new(device), new(device)
	r := NewRegion(make([]byte, 10), nil)
	register(t, r, a, b)
	list := make([]Segment, 0, 4)
	found := 0
	if n := testing.AllocsPerRun(100, func() {
		v := r.Slice(2, 5)
		if v.Pin() != nil {
			return
		}
		list = v.AppendSegments(list[:0])
		if list[0].Registration(b) != nil {
			found++
		}
		v.Unpin()
	}); n != 0 || found == 0 {
		t.Errorf("%v allocations, found %d times", n, found)
	}
}
