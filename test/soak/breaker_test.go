package soak

import (
	"errors"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// Each blow causes its errors at both ends.
func TestBlows(t *testing.T) {
	for _, c := range []struct {
		how          failure
		ours, theirs error // results of reading
		write        error // result of our second write
	}{
		{reset, syscall.ECONNRESET, syscall.ECONNRESET, syscall.ECONNRESET},
		{closing, syscall.ECONNRESET, io.EOF, syscall.ECONNRESET},
		{halfClose, nil, io.EOF, syscall.EPIPE},
		{closeRead, io.EOF, nil, nil},
		{truncateWrite, syscall.ECONNRESET, syscall.ECONNRESET, syscall.ECONNRESET},
	} {
		t.Run(c.how.String(), func(t *testing.T) {
			near, far := connect(t)
			near.inject(c.how)
			if c.how == truncateWrite {
				if n, err := near.TryWrite([][]byte{[]byte("abc"), []byte("defg")}); n != 3 || err != nil {
					t.Errorf("write: %d bytes, %v, want half of 7", n, err)
				}
			}
			if _, err := near.TryWrite([][]byte{[]byte("x")}); !errors.Is(err, c.write) {
				t.Errorf("write: %v, want %v", err, c.write)
			}
			if c.ours != nil {
				if err := readError(near); !errors.Is(err, c.ours) {
					t.Errorf("read here: %v, want %v", err, c.ours)
				}
			}
			if c.theirs != nil {
				if err := readError(far); !errors.Is(err, c.theirs) {
					t.Errorf("read there: %v, want %v", err, c.theirs)
				}
			}
			for _, s := range []socklnd.Stream{near, far} {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			if n := near.breaker.count[c.how].Load(); n != 1 {
				t.Errorf("%d blows counted", n)
			}
			near.inject(c.how)
			if n := near.breaker.count[c.how].Load(); n != 1 {
				t.Errorf("a closed stream was broken again")
			}
		})
	}
}

// readError reads until there is an error.
func readError(s socklnd.Stream) error {
	for {
		if _, err := s.Read([][]byte{make([]byte, 16)}); err != nil {
			return err
		}
	}
}

// connect makes a TCP connection that the breaker can break at the near end.
func connect(t *testing.T) (near *stream, far socklnd.Stream) {
	t.Helper()
	c := DefaultConfig()
	network := socklnd.HostNetwork()
	at := netip.AddrPortFrom(c.nid(parent, 0).IP(), 0)
	l, err := network.Listen(at, 1)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan socklnd.Stream, 1)
	go func() {
		s, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- s
	}()
	b := newBreaker(&c, parent)
	b.setDisabled(false)
	s, err := network.Dial(t.Context(), at, l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	far = <-accepted
	near = b.wrap(s)
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
		_ = l.Close()
	})
	for _, s := range []socklnd.Stream{near, far} {
		if err := s.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return near, far
}
