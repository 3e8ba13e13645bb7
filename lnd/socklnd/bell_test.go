package socklnd

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
)

// ringing is a stream with a bell, and a goroutine that sleeps in Attend.
type ringing struct {
	t       *testing.T
	far     net.Conn
	near    Stream
	bell    Bell
	calls   chan struct{}
	answers chan bool
	ended   chan error
}

func newRinging(t *testing.T) *ringing {
	t.Helper()
	l, err := HostNetwork().Listen(netip.AddrPortFrom(newAddress(), 0), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := &ringing{t: t, calls: make(chan struct{}), answers: make(chan bool), ended: make(chan error, 1)}
	if r.far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.far.Close() })
	if r.near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.near.Close() })
	if r.bell, err = r.near.(Pollable).Bell(); err != nil {
		t.Fatal(err)
	}
	return r
}

// attend starts a goroutine that calls Attend.
func (r *ringing) attend() {
	go func() {
		r.ended <- r.bell.Attend(func() bool {
			r.calls <- struct{}{}
			return <-r.answers
		})
	}()
}

// rings checks that the goroutine wakes, and lets it sleep again.
func (r *ringing) rings(why string) {
	r.t.Helper()
	await(r.t, r.calls, why)
	r.answers <- false
}

// ends checks that Attend returns because of Ring.
func (r *ringing) ends() {
	r.t.Helper()
	if err := await(r.t, r.ended, "the end"); !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Errorf("the end: %v", err)
	}
}

func (r *ringing) say(text string) {
	r.t.Helper()
	if _, err := r.far.Write([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// hear checks that the stream has the bytes want to read.
func (r *ringing) hear(want string) {
	r.t.Helper()
	b := make([]byte, 10)
	if n, err := r.near.Read([][]byte{b}); err != nil || string(b[:n]) != want {
		r.t.Fatalf("%q came: %v, want %q", b[:n], err, want)
	}
}

func (r *ringing) mute(on bool) {
	r.t.Helper()
	if err := r.bell.Mute(on); err != nil {
		r.t.Fatal(err)
	}
}

// TestBellRings goes through the events that wake the goroutine.
func TestBellRings(t *testing.T) {
	r := newRinging(t)
	r.attend()
	r.rings("at once")
	r.say("a")
	r.rings("for a byte")
	r.say("b")
	r.rings("for another, while the first is there")
	r.hear("ab")
	r.mute(true)
	r.say("c")
	r.hear("c")
	r.say("d")
	r.mute(false)
	r.rings("for what is there when it is not mute any more")
	r.mute(true)
	r.mute(false)
	r.rings("for the same once more")
	r.hear("d")
	r.bell.Ring()
	r.ends()
	r.bell.Ring() // ends the next Attend
	r.attend()
	r.ends()
}

// TestBellEnds checks a bell whose stream is closed, and an Attend that its callback ends.
func TestBellEnds(t *testing.T) {
	r := newRinging(t)
	r.attend()
	r.rings("at once")
	if err := r.near.Close(); err != nil {
		t.Error(err)
	}
	r.ends()
	if err := r.bell.Mute(true); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed stream's bell is muted: %v", err)
	}
	if err := r.bell.Attend(func() bool { return true }); err != nil {
		t.Error(err)
	}
	r.bell.Close()
	r.bell.Ring()
}
