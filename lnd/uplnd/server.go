package uplnd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
)

// Config configures a Server. Zero fields have defaults.
type Config struct {
	// Host is where NIs without a NID get their address. It is required for such NIs.
	Host hostnet.Host
	// Admit decides whether a process may be a proxy, and on which terms. Its connection is conn, and
	// p.NID is zero if it names no NI. If Admit is nil, all processes may that can connect to the socket.
	Admit func(conn *net.UnixConn, p *Proxy) (Terms, error)
	// AreaSize is the size in bytes of the memory that is shared with each proxy for payloads: a multiple of
	// 2 MiB, at most 1 GiB. The default is 32 MiB.
	AreaSize int
	// Entries is the number of entries in each ring: a power of two from 64 to 65536. The default is 1024.
	Entries int
	// MaxProxies is the maximum number of proxies. The default is 64.
	MaxProxies int
	// Patience is how long a proxy may leave orders unread. The default is 10 s.
	Patience time.Duration
	// Quarantine is how long the user of a proxy that was cut off cannot attach another one. The default is
	// 10 s; a negative value means no time.
	Quarantine time.Duration
	// Logger receives messages for the operator. If nil, they are discarded.
	Logger *slog.Logger
}

// attachTimeout is how long a process that connects may take to ask to be a proxy.
const attachTimeout = 10 * time.Second

// maxGreeting is the maximum number of connections on which no request has come yet.
const maxGreeting = 32

func (c Config) withDefaults() (Config, error) {
	set := func(v *int, byDefault int) {
		if *v == 0 {
			*v = byDefault
		}
	}
	set(&c.AreaSize, 32<<20)
	set(&c.Entries, 1024)
	set(&c.MaxProxies, 64)
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Quarantine == 0 {
		c.Quarantine = 10 * time.Second
	}
	switch {
	case CheckAreaSize(c.AreaSize) != nil:
		return c, fmt.Errorf("uplnd: %w", CheckAreaSize(c.AreaSize))
	case c.Entries < 64 || c.Entries > shared.MaxCompletions || c.Entries&(c.Entries-1) != 0:
		return c, fmt.Errorf("uplnd: rings of %d entries: not a power of two from 64 to %d: %w", c.Entries, shared.MaxCompletions, syscall.EINVAL)
	case c.MaxProxies < 1:
		return c, fmt.Errorf("uplnd: at most %d proxies: less than 1: %w", c.MaxProxies, syscall.EINVAL)
	}
	return c, nil
}

// CheckAreaSize returns EINVAL if an area cannot have n bytes.
func CheckAreaSize(n int) error {
	if n < 2*protocol.MaxBuffer || n%(2*protocol.MaxBuffer) != 0 || n > protocol.MaxArea {
		return fmt.Errorf("area of %d bytes: not a multiple of %d up to %d: %w", n, 2*protocol.MaxBuffer, protocol.MaxArea, syscall.EINVAL)
	}
	return nil
}

// maxSends and maxArrivals are how many messages a proxy has at most. Together with their other orders they
// have room in a ring.
func (c *Config) maxSends() int    { return c.Entries / 4 }
func (c *Config) maxArrivals() int { return c.Entries / 4 }

// maxOrders is how many orders may wait for room in the ring.
func (c *Config) maxOrders() int { return 4 * c.Entries }

// Server accepts proxies and gives them NIs. It is safe for concurrent use.
type Server struct {
	config Config
	clock  shared.Clock
	log    *boundedlog.Log

	mu        sync.Mutex // guards the fields below
	closed    bool
	listeners map[net.Listener]struct{}
	greeting  []*net.UnixConn // that have not sent a request, the oldest first
	nis       map[lnet.NID]*ni
	proxies   map[uint32]int       // numbers of proxies, by user
	punished  map[uint32]time.Time // users, and until when they cannot attach proxies
	work      sync.WaitGroup
}

// NewServer returns a server without a listener. It returns EINVAL if a field of c is invalid.
func NewServer(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{
		config: c, clock: shared.ReadClock(), log: boundedlog.New(c.Logger),
		listeners: make(map[net.Listener]struct{}), nis: make(map[lnet.NID]*ni), proxies: make(map[uint32]int), punished: make(map[uint32]time.Time),
	}, nil
}

// Driver returns a driver for NIs on nets of a type. Proxies that give themselves the name proxy can serve these
// NIs; if it is "", all can.
func (s *Server) Driver(t lnet.NetType, proxy string) *Driver { return &Driver{s, t, proxy} }

// enter adds an NI.
func (s *Server) enter(i *ni) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lnd.ErrClosed
	}
	if s.nis[i.config.NID] != nil {
		return fmt.Errorf("nid %s: %w", i.config.NID, lnd.ErrExists)
	}
	s.nis[i.config.NID] = i
	return nil
}

func (s *Server) leave(i *ni) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nis, i.config.NID)
}

// Serve accepts proxies on a socket of type SOCK_SEQPACKET until Close is called, and then returns nil. It
// always closes l.
func (s *Server) Serve(l *net.UnixListener) error {
	defer func() { _ = l.Close() }()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case err == nil:
			s.greet(conn)
		case s.isClosed():
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOBUFS):
			s.log.Report(boundedlog.Line{Level: slog.LevelError, Text: "cannot accept a proxy; it has to try again"}, slog.Any("err", err))
			time.Sleep(50 * time.Millisecond)
		case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.EINTR):
		default:
			return fmt.Errorf("uplnd: accept: %w", err)
		}
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// greet answers a connection in a goroutine. If too many have not sent a request, it closes the oldest of them, so
// that processes that send nothing keep no others away.
func (s *Server) greet(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return
	}
	if len(s.greeting) == maxGreeting {
		_ = s.greeting[0].Close()
		s.greeting = slices.Delete(s.greeting, 0, 1)
	}
	s.greeting = append(s.greeting, conn)
	s.work.Go(func() {
		p, err := s.attach(conn)
		if err != nil {
			refuse(conn, err)
			return
		}
		p.run()
		s.release(p.UID)
	})
}

// greeted removes a connection from those that have not sent a request.
func (s *Server) greeted(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = slices.DeleteFunc(s.greeting, func(c *net.UnixConn) bool { return c == conn })
}

// Close stops Serve, detaches proxies, and waits until their goroutines have ended, or until ctx is done. All
// NIs must be closed.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
	for _, conn := range s.greeting {
		_ = conn.Close()
	}
	open := len(s.nis)
	s.mu.Unlock()
	if open > 0 {
		return fmt.Errorf("uplnd: %d NIs are open", open)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.work.Wait()
		s.log.End()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("uplnd: proxies are still being detached"), ctx.Err())
	}
}
