package uplnd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
	// Admit decides whether a process may be a proxy. If it is nil, all may that can connect to the socket. It
	// must not block.
	Admit func(p Proxy) error
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

// maxGreeting is the maximum number of processes that have connected and are not proxies yet. Others must try
// again.
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
	half := c.AreaSize / 2
	switch {
	case half < protocol.MaxBuffer || half%protocol.MaxBuffer != 0 || c.AreaSize > protocol.MaxArea:
		return c, fmt.Errorf("uplnd: area of %d bytes: not a multiple of %d up to %d: %w", c.AreaSize, 2*protocol.MaxBuffer, protocol.MaxArea, syscall.EINVAL)
	case c.Entries < 64 || c.Entries > shared.MaxCompletions || c.Entries&(c.Entries-1) != 0:
		return c, fmt.Errorf("uplnd: rings of %d entries: not a power of two from 64 to %d: %w", c.Entries, shared.MaxCompletions, syscall.EINVAL)
	case c.MaxProxies < 1:
		return c, fmt.Errorf("uplnd: at most %d proxies: less than 1: %w", c.MaxProxies, syscall.EINVAL)
	}
	return c, nil
}

// maxSends and maxArrivals are how many messages a proxy has at most. Together with their other orders they
// have room in a ring.
func (c *Config) maxSends() int    { return c.Entries / 4 }
func (c *Config) maxArrivals() int { return c.Entries / 4 }

// maxOrders is how many orders may wait for room in the ring.
func (c *Config) maxOrders() int { return 4 * c.Entries }

// Proxy describes a process that is, or wants to be, a proxy.
type Proxy struct {
	// Name is the name that it gives itself. Net is the net that it serves, NID that of the NI.
	Name string
	Net  lnet.Net
	NID  lnet.NID
	// PID, UID and GID are those of the process, as the kernel reports them.
	PID      int32
	UID, GID uint32
	// Since is when it was attached.
	Since time.Time
}

// Server accepts proxies and gives them NIs. It is safe for concurrent use.
type Server struct {
	config Config
	clock  shared.Clock
	log    *boundedlog.Log

	mu        sync.Mutex // guards the fields below
	closed    bool
	listeners map[net.Listener]struct{}
	greeting  map[*net.UnixConn]struct{}
	nis       map[lnet.NID]*ni
	proxies   int
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
		listeners: make(map[net.Listener]struct{}), greeting: make(map[*net.UnixConn]struct{}),
		nis: make(map[lnet.NID]*ni), punished: make(map[uint32]time.Time),
	}, nil
}

// Driver returns a driver for the nets of a type, whose NIs proxies can serve.
func (s *Server) Driver(t lnet.NetType) *Driver { return &Driver{s, t} }

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

// greet answers a connection in a goroutine.
func (s *Server) greet(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.greeting) >= maxGreeting {
		_ = conn.Close()
		return
	}
	s.greeting[conn] = struct{}{}
	s.work.Go(func() {
		p, err := s.attach(conn)
		s.mu.Lock()
		delete(s.greeting, conn)
		s.mu.Unlock()
		if err != nil {
			refuse(conn, err)
			return
		}
		p.run()
		s.mu.Lock()
		s.proxies--
		s.mu.Unlock()
	})
}

// refuse sends the reason for which a process cannot be a proxy.
func refuse(conn *net.UnixConn, err error) {
	errno := syscall.EIO
	errors.As(err, &errno)
	f := protocol.Failure{Errno: errno, Text: err.Error()}
	_, _ = conn.Write(f.Append(nil)) // the deadline of the attachment applies
	_ = conn.Close()
}

// attach reads the request of a process and makes it a proxy.
func (s *Server) attach(conn *net.UnixConn) (*proxyEnd, error) {
	if err := conn.SetDeadline(time.Now().Add(attachTimeout)); err != nil {
		return nil, err
	}
	record := make([]byte, protocol.AttachSize+1)
	n, _, _, _, err := conn.ReadMsgUnix(record, nil)
	if err != nil {
		return nil, err
	}
	var request protocol.Attach
	if err := request.Decode(record[:n]); err != nil {
		return nil, err
	}
	cred, err := credentials(conn)
	if err != nil {
		return nil, err
	}
	who := Proxy{Name: request.Name, Net: request.Net, NID: request.NID, PID: cred.Pid, UID: cred.Uid, GID: cred.Gid, Since: time.Now()}
	i, err := s.choose(&who)
	if err != nil {
		return nil, err
	}
	p, err := s.newProxyEnd(conn, i, who)
	if err != nil {
		s.mu.Lock()
		s.proxies--
		s.mu.Unlock()
		return nil, err
	}
	return p, nil
}

// choose returns the NI that a process wants to serve, if it may. It counts the process as a proxy.
func (s *Server) choose(who *Proxy) (*ni, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*ni
	for nid, i := range s.nis {
		if nid.Net() == who.Net && (who.NID.IsZero() || nid == who.NID) {
			found = append(found, i)
		}
	}
	if len(found) == 1 {
		who.NID = found[0].config.NID
	}
	until, punished := s.punished[who.UID]
	if punished && time.Now().After(until) {
		delete(s.punished, who.UID)
		punished = false
	}
	switch {
	case s.closed:
		return nil, fmt.Errorf("lnetd is shutting down: %w", syscall.ESHUTDOWN)
	case len(found) == 0:
		return nil, fmt.Errorf("no NI on net %s with NID %q is served by proxies: %w", who.Net, who.NID, syscall.ENODEV)
	case len(found) > 1:
		return nil, fmt.Errorf("%d NIs are on net %s: name one: %w", len(found), who.Net, syscall.ENOTUNIQ)
	case punished:
		return nil, fmt.Errorf("a proxy of user %d was cut off: wait %v: %w", who.UID, time.Until(until).Round(time.Second), syscall.EAGAIN)
	case s.proxies >= s.config.MaxProxies:
		return nil, fmt.Errorf("%d proxies are attached, which is the limit: %w", s.proxies, syscall.EDQUOT)
	}
	if s.config.Admit != nil {
		if err := s.config.Admit(*who); err != nil {
			return nil, err
		}
	}
	s.proxies++
	return found[0], nil
}

// punish keeps proxies of a user away for a while.
func (s *Server) punish(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config.Quarantine > 0 {
		s.punished[uid] = time.Now().Add(s.config.Quarantine)
	}
}

// rings is the format of the ring file.
var rings = shared.Format{Submission: protocol.EntrySize, Completion: protocol.EntrySize}

// newProxyEnd creates what is shared with a proxy, passes it to the proxy, and attaches it to the NI.
func (s *Server) newProxyEnd(conn *net.UnixConn, i *ni, who Proxy) (_ *proxyEnd, err error) {
	ring, files, err := rings.Create(shared.Sizes{Submissions: s.config.Entries, Completions: s.config.Entries})
	if err != nil {
		return nil, err
	}
	defer files.Close()
	area, fd, err := shared.Create("lnetd-proxy", s.config.AreaSize)
	if err != nil {
		_ = ring.Close()
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	half := s.config.AreaSize / 2
	p := &proxyEnd{
		Proxy: who, ni: i, conn: conn, ring: ring, area: area, ended: make(chan struct{}),
		here: protocol.NewBuffers(0, half), there: protocol.NewBuffers(uint64(half), half),
		arrivals: make(map[uint64]*arrival), peers: make(map[lnet.NID]struct{}), used: make(map[lnet.NID]int),
	}
	p.unused.L = &p.mu
	reply := protocol.Attached{NID: i.config.NID, AreaSize: s.config.AreaSize, Timeout: i.Timeout()}
	rights := unix.UnixRights(files.Ring, files.Submissions, files.Completions, fd)
	if err = i.enter(p); err == nil {
		if _, _, err = conn.WriteMsgUnix(reply.Append(nil), rights, nil); err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			p.end(errGone) // the NI may be about to put an order into the ring
			i.leave(p)
			close(p.ended)
		}
	}
	if err != nil {
		return nil, errors.Join(err, ring.Close(), area.Close())
	}
	i.log.Info("a proxy has attached to the NI and carries its messages", "proxy", who.Name, "pid", who.PID, "uid", who.UID)
	return p, nil
}

// credentials returns those of the process at the other end.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	return cred, err
}

// Close stops Serve, detaches proxies, and waits until their goroutines have ended, or until ctx is done. All
// NIs must be closed.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		_ = l.Close()
	}
	for conn := range s.greeting {
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
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("uplnd: proxies are still being detached"), ctx.Err())
	}
}
