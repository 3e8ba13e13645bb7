package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/socklnd"
)

// blow is a way to break a connection.
type blow uint8

const (
	reset     blow = iota // RST, whatever is in transit
	closing               // close: FIN, or RST if there is unread data
	halfClose             // no more writing: the peer reads the end, our writes fail with a broken pipe
	deafen                // no more reading: we read the end
	cut                   // the next write is sent in part, then RST
	refuse                // a connection attempt is refused
	blows
)

func (b blow) String() string {
	return [...]string{"reset", "close", "half close", "no more reading", "cut in a write", "refused call"}[b]
}

// breaker is the host's network with streams that break at random.
type breaker struct {
	socklnd.Network
	min, max time.Duration // between two blows
	count    [blows]atomic.Uint64

	mu      sync.Mutex // guards the rest
	random  *rand.Rand
	calm    bool // no blows yet, or no more
	streams []*stream
}

func newBreaker(c *Config, s side) *breaker {
	return &breaker{
		Network: socklnd.HostNetwork(),
		min:     c.KillMin, max: c.KillMax,
		random: rand.New(rand.NewPCG(c.seed(s), 1)),
		calm:   true,
	}
}

// run breaks streams until ctx ends.
func (b *breaker) run(ctx context.Context) {
	b.setCalm(false)
	defer b.setCalm(true)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		b.mu.Lock()
		pause := b.min + time.Duration(b.random.Int64N(int64(b.max-b.min)+1))
		b.mu.Unlock()
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			b.strike()
		}
	}
}

// strike breaks a random stream in a random way.
func (b *breaker) strike() {
	b.mu.Lock()
	if len(b.streams) == 0 {
		b.mu.Unlock()
		return
	}
	s := b.streams[b.random.IntN(len(b.streams))]
	how := [...]blow{reset, reset, reset, closing, closing, halfClose, halfClose, deafen, cut, cut, cut}[b.random.IntN(11)]
	b.mu.Unlock()
	s.suffer(how)
}

// kills returns the number of blows of each kind so far.
func (b *breaker) kills() map[string]uint64 {
	m := make(map[string]uint64)
	for k := range blows {
		m[k.String()] = b.count[k].Load()
	}
	return m
}

// oneIn returns true once in n calls on average, and false while the breaker is calm.
func (b *breaker) oneIn(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.calm && b.random.IntN(n) == 0
}

func (b *breaker) setCalm(calm bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm = calm
}

func (b *breaker) isCalm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calm
}

// Dial refuses some connections, and breaks others at their first write.
func (b *breaker) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	if b.oneIn(16) {
		b.count[refuse].Add(1)
		return nil, syscall.ECONNREFUSED
	}
	s, err := b.Network.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	w := b.wrap(s)
	if b.oneIn(16) {
		w.suffer(cut)
	}
	return w, nil
}

// Listen implements socklnd.Network.
func (b *breaker) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	l, err := b.Network.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	return listener{l, b}, nil
}

type listener struct {
	socklnd.Listener
	breaker *breaker
}

func (l listener) Accept() (socklnd.Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.breaker.wrap(s), nil
}

func (b *breaker) wrap(s socklnd.Stream) *stream {
	w := &stream{Stream: s, breaker: b}
	b.mu.Lock()
	b.streams = append(b.streams, w)
	b.mu.Unlock()
	return w
}

func (b *breaker) forget(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := slices.Index(b.streams, s); k >= 0 {
		b.streams = slices.Delete(b.streams, k, k+1)
	}
}

// stream is a stream that can break.
type stream struct {
	socklnd.Stream
	breaker *breaker
	broken  atomic.Bool // closed by the breaker, not by its user
	marked  atomic.Bool // the next write is the last

	mu     sync.Mutex // held while the socket must stay open, or is closed
	closed bool
}

// suffer breaks the stream, unless it is closed.
func (s *stream) suffer(how blow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	switch how {
	case cut:
		if s.marked.Swap(true) {
			return
		}
	case closing:
		s.end(false)
	case reset:
		s.end(true)
	default:
		fd := socketOf(s.LocalAddr(), s.RemoteAddr())
		way := unix.SHUT_WR
		if how == deafen {
			way = unix.SHUT_RD
		}
		if fd < 0 || unix.Shutdown(fd, way) != nil { // already reset by the peer
			return
		}
	}
	s.breaker.count[how].Add(1)
}

// end closes the stream without the knowledge of its user. s.mu is held.
func (s *stream) end(withReset bool) {
	if withReset {
		if fd := socketOf(s.LocalAddr(), s.RemoteAddr()); fd >= 0 {
			_ = resetOnClose(fd) // otherwise it is an ordinary close
		}
	}
	s.broken.Store(true)
	s.closed = true
	_ = s.Stream.Close()
}

// explain replaces an error that the breaker's close has caused by the error of a reset.
func (s *stream) explain(err error) error {
	if err != nil && s.broken.Load() && errors.Is(err, net.ErrClosed) {
		return syscall.ECONNRESET
	}
	return err
}

// Read implements socklnd.Stream.
func (s *stream) Read(bufs [][]byte) (int, error) {
	n, err := s.Stream.Read(bufs)
	return n, s.explain(err)
}

// TryWrite implements socklnd.Stream.
func (s *stream) TryWrite(bufs [][]byte) (int, error) {
	if !s.marked.Load() || s.breaker.isCalm() {
		n, err := s.Stream.TryWrite(bufs)
		return n, s.explain(err)
	}
	n, err := s.Stream.TryWrite(half(bufs))
	s.mu.Lock()
	if !s.closed {
		s.end(true)
	}
	s.mu.Unlock()
	return n, s.explain(err)
}

// half returns the first half of the bytes in bufs.
func half(bufs [][]byte) [][]byte {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	left := total / 2
	var first [][]byte
	for _, b := range bufs {
		b = b[:min(len(b), left)]
		left -= len(b)
		first = append(first, b)
	}
	return first
}

// AwaitWritable implements socklnd.Stream.
func (s *stream) AwaitWritable() error { return s.explain(s.Stream.AwaitWritable()) }

// Close implements socklnd.Stream.
func (s *stream) Close() error {
	s.breaker.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken.Store(false)
	if s.closed {
		return nil
	}
	s.closed = true
	return s.Stream.Close()
}
