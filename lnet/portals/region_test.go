package portals_test

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// A region cannot be released while an MD uses it. It can be released when the handler
// receives the last event of the MD, even from within the handler.
func TestRegionIsPinnedUntilTheLastEvent(t *testing.T) {
	r := memory.NewRegion(make([]byte, 100), nil)
	table := portals.New(portals.Config{})
	released := errors.New("no last event")
	d := portals.MD{
		Memory:    memory.Vector{Segments: []memory.Segment{r.Segment(0, 10), {Bytes: make([]byte, 5)}, r.Segment(20, 10)}, Length: 25},
		Threshold: 2, Unlink: true,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if e.Unlinked {
				released = r.Release()
			} else if err := r.Release(); !errors.Is(err, memory.ErrInUse) {
				t.Errorf("release at %v: %v, want ErrInUse", e.Type, err)
			}
		}),
	}
	h, err := table.Bind(d)
	if err != nil {
		t.Fatal(err)
	}
	var first, second portals.Operation
	for _, o := range []*portals.Operation{&first, &second} {
		got, err := table.Begin(h, o, portals.Begin{Type: lnet.MsgPut})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.AppendSegments(nil); len(s) != 3 || s[0].Region() != r || s[1].Region() != nil || s[2].Region() != r {
			t.Errorf("the message has %+v", s)
		}
	}
	table.Finish(&first, nil)
	if err := r.Release(); !errors.Is(err, memory.ErrInUse) {
		t.Errorf("release during a message: %v, want ErrInUse", err)
	}
	table.Finish(&second, nil)
	if released != nil {
		t.Errorf("release after the last event: %v", released)
	}
}

func TestRegionIsPinnedUntilUnlink(t *testing.T) {
	r := memory.NewRegion(make([]byte, 100), nil)
	table := portals.New(portals.Config{})
	h, _, _, err := table.Attach(portals.Entry{Portal: 3}, portals.MD{Memory: r.Slice(0, 50), Threshold: 1, Options: portals.OpPut})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Release(); !errors.Is(err, memory.ErrInUse) {
		t.Errorf("release of what is attached: %v, want ErrInUse", err)
	}
	if err := table.Unlink(h); err != nil {
		t.Fatal(err)
	}
	if err := r.Release(); err != nil {
		t.Error(err)
	}
}

func TestMDOfReleasedRegion(t *testing.T) {
	r := memory.NewRegion(make([]byte, 100), nil)
	table := portals.New(portals.Config{})
	table.Close()
	for range 2 { // first on a closed table, which must not leave r pinned, then with r released
		_, err := table.Bind(portals.MD{Memory: r.Slice(0, 50)})
		_, _, _, err2 := table.Attach(portals.Entry{}, portals.MD{Memory: r.Slice(0, 50), Options: portals.OpPut})
		for _, err := range []error{err, err2} {
			if ended := errors.Is(err, memory.ErrReleased) && errors.Is(err, portals.ErrInvalid); !ended && !errors.Is(err, portals.ErrClosed) {
				t.Error(err)
			}
		}
		if errors.Is(err, memory.ErrReleased) {
			return
		}
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("MDs are made of what was released")
}
