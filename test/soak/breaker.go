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

// failure is a kind of failure that a breaker causes in a connection.
type failure uint8

const (
	reset         failure = iota // RST; data in transit is lost
	closing                      // close: FIN, or RST if this end has unread data
	halfClose                    // shut down for writing: the peer reads the end of the stream, and writes here fail with a broken pipe
	closeRead                    // shut down for reading: this end reads the end of the stream
	truncateWrite                // half of the next write is sent, then RST
	refuseDial                   // a connection attempt fails with ECONNREFUSED
	failureKinds
)

func (b failure) String() string {
	return [...]string{"reset", "close", "half close", "no more reading", "cut in a write", "refused call"}[b]
}

// breaker is the host's network, but it makes streams and connection attempts fail at random.
type breaker struct {
	socklnd.Network
	min, max time.Duration // limits of the time between two failures
	count    [failureKinds]atomic.Uint64

	mu       sync.Mutex // guards the rest
	random   *rand.Rand
	disabled bool // no failures: before and after run
	streams  []*stream
}

func newBreaker(c *Config, s side) *breaker {
	return &breaker{
		Network: socklnd.HostNetwork(),
		min:     c.KillMin, max: c.KillMax,
		random:   rand.New(rand.NewPCG(c.seed(s), 1)),
		disabled: true,
	}
}

// run causes failures until ctx is done.
func (b *breaker) run(ctx context.Context) {
	b.setDisabled(false)
	defer b.setDisabled(true)
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
			b.breakRandom()
		}
	}
}

// breakRandom causes a random failure in a random open stream.
func (b *breaker) breakRandom() {
	b.mu.Lock()
	if len(b.streams) == 0 {
		b.mu.Unlock()
		return
	}
	s := b.streams[b.random.IntN(len(b.streams))]
	how := [...]failure{reset, reset, reset, closing, closing, halfClose, halfClose, closeRead, truncateWrite, truncateWrite, truncateWrite}[b.random.IntN(11)]
	b.mu.Unlock()
	s.inject(how)
}

// counts returns the number of failures of each kind so far.
func (b *breaker) counts() map[string]uint64 {
	m := make(map[string]uint64)
	for k := range failureKinds {
		m[k.String()] = b.count[k].Load()
	}
	return m
}

// oneIn returns true for one of n calls on average. While the breaker is disabled it returns false.
func (b *breaker) oneIn(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.disabled && b.random.IntN(n) == 0
}

func (b *breaker) setDisabled(calm bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disabled = calm
}

func (b *breaker) isDisabled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.disabled
}

// Dial implements socklnd.Network. While the breaker is enabled, one of 16 attempts fails, and one of 16
// streams breaks at its first write.
func (b *breaker) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	if b.oneIn(16) {
		b.count[refuseDial].Add(1)
		return nil, syscall.ECONNREFUSED
	}
	s, err := b.Network.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	w := b.wrap(s)
	if b.oneIn(16) {
		w.inject(truncateWrite)
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

func (b *breaker) removeStream(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := slices.Index(b.streams, s); k >= 0 {
		b.streams = slices.Delete(b.streams, k, k+1)
	}
}

// stream is a stream in which the breaker can cause failures.
type stream struct {
	socklnd.Stream
	breaker      *breaker
	injected     atomic.Bool // the breaker has closed the stream, and the driver has not
	truncateNext atomic.Bool // the next write is truncated

	mu     sync.Mutex // held while the socket must stay open, and while it is closed
	closed bool
}

// inject causes a failure in the stream. It does nothing if the stream is closed.
func (s *stream) inject(how failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	switch how {
	case truncateWrite:
		if s.truncateNext.Swap(true) {
			return
		}
	case closing:
		s.closeInjected(false)
	case reset:
		s.closeInjected(true)
	default:
		fd := socketOf(s.LocalAddr(), s.RemoteAddr())
		way := unix.SHUT_WR
		if how == closeRead {
			way = unix.SHUT_RD
		}
		if fd < 0 || unix.Shutdown(fd, way) != nil { // the peer has reset it already
			return
		}
	}
	s.breaker.count[how].Add(1)
}

// closeInjected closes the stream, with RST if withReset is set. The driver, which uses the stream, only
// sees the error of its next call. s.mu is held.
func (s *stream) closeInjected(withReset bool) {
	if withReset {
		if fd := socketOf(s.LocalAddr(), s.RemoteAddr()); fd >= 0 {
			_ = resetOnClose(fd) // if this fails, the close sends FIN
		}
	}
	s.injected.Store(true)
	s.closed = true
	_ = s.Stream.Close()
}

// mapError returns ECONNRESET for an error that is caused by the breaker's close. It returns other
// errors unchanged.
func (s *stream) mapError(err error) error {
	if err != nil && s.injected.Load() && errors.Is(err, net.ErrClosed) {
		return syscall.ECONNRESET
	}
	return err
}

// Read implements socklnd.Stream.
func (s *stream) Read(bufs [][]byte) (int, error) {
	n, err := s.Stream.Read(bufs)
	return n, s.mapError(err)
}

// TryWrite implements socklnd.Stream.
func (s *stream) TryWrite(bufs [][]byte) (int, error) {
	if !s.truncateNext.Load() || s.breaker.isDisabled() {
		n, err := s.Stream.TryWrite(bufs)
		return n, s.mapError(err)
	}
	n, err := s.Stream.TryWrite(half(bufs))
	s.mu.Lock()
	if !s.closed {
		s.closeInjected(true)
	}
	s.mu.Unlock()
	return n, s.mapError(err)
}

// half returns slices of bufs with the first half of its bytes.
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
func (s *stream) AwaitWritable() error { return s.mapError(s.Stream.AwaitWritable()) }

// Close implements socklnd.Stream.
func (s *stream) Close() error {
	s.breaker.removeStream(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injected.Store(false)
	if s.closed {
		return nil
	}
	s.closed = true
	return s.Stream.Close()
}
