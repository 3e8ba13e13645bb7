package clients

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// strangersMax is how many connections there may be at once that are to be refused: they
// are kept until they say HELLO, to be told why.
const strangersMax = 64

// errEnd is why clients are cut off when the Server is closed.
var errEnd = errors.New("lnetd ends")

// Server hosts transfer machines for other processes. New makes it. Its methods are safe
// for concurrent use.
type Server struct {
	config Config
	rules  atomic.Pointer[[]Rule] // those of config are what it began with
	// longestTurn is how long a connection of a user who connects too fast may wait.
	longestTurn time.Duration
	users       users
	records     sync.Pool // of *[]byte, with room for a record and one byte more
	// context is that of all connections.
	context context.Context
	end     context.CancelFunc
	// began is a time, and what CLOCK_MONOTONIC showed then, in ns.
	began     time.Time
	monotonic uint64

	lookout lookout
	log     *boundedlog.Log
	work    sync.WaitGroup // connections

	mu        sync.Mutex // guards the rest
	listeners map[Listener]struct{}
	clients   map[uint64]*client
	past      map[string]*tally // of clients that are gone, by their rules' names
	last      uint64            // connection
	strangers int
	turns     turns
	closing   bool
	gone      chan struct{} // closed when closing and there is no client
}

// New makes a Server; there is nothing to close unless Serve was called. EINVAL: the
// Config cannot be.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, began: time.Now(), log: boundedlog.New(c.Logger), gone: make(chan struct{}),
		listeners: make(map[Listener]struct{}), clients: make(map[uint64]*client),
		past: make(map[string]*tally), turns: make(turns), longestTurn: time.Second,
	}
	s.rules.Store(&c.Rules)
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, fmt.Errorf("clients: CLOCK_MONOTONIC: %w", err)
	}
	s.monotonic = uint64(now.Nano())
	s.records.New = func() any {
		b := make([]byte, protocol.MaxRecord+1)
		return &b
	}
	s.context, s.end = context.WithCancel(context.Background())
	return s, nil
}

// SetRules has other rules hold for those who connect from now on; none: DefaultRules. Who
// is connected keeps what held for him; the figures of rules that are no more go with the
// last one of their clients. EINVAL: they cannot be, and nothing has changed.
func (s *Server) SetRules(rules []Rule) error {
	rules, err := rulesWithDefaults(rules)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules.Store(&rules)
	s.prune()
	return nil
}

// stamp is a time as completions have it, in ns of CLOCK_MONOTONIC.
func (s *Server) stamp(t time.Time) uint64 { return s.monotonic + uint64(t.Sub(s.began)) }

func (s *Server) now() uint64 { return s.stamp(time.Now()) }

// Serve accepts clients on a listener, which it closes in the end. It returns nil after
// Close, or why it cannot go on; EPROTOTYPE: its sockets are not of type SOCK_SEQPACKET.
func (s *Server) Serve(l Listener) error {
	if err := checkType(l); err != nil {
		_ = l.Close()
		return err
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer s.stopListening(l)
	const slow = 50 * time.Millisecond
	for {
		conn, err := acceptOne(l)
		switch {
		case err == nil:
			s.accept(conn)
		case s.context.Err() != nil || s.isClosing():
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOBUFS):
			// Who is connected goes on, and may make room.
			s.log.Tell(boundedlog.Line{Level: slog.LevelError, Text: "a client cannot be accepted"}, slog.Any("err", err))
			select {
			case <-time.After(slow):
			case <-s.context.Done():
			}
		case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.EINTR):
		default:
			return fmt.Errorf("clients: accept: %w", err)
		}
	}
}

// acceptOne accepts a connection, unless its descriptor is one that clients leave free: EMFILE.
func acceptOne(l Listener) (*net.UnixConn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var full error
		err = raw.Control(func(fd uintptr) { full = limit.CheckClientDescriptor(int(fd)) })
		err = errors.Join(err, full)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (s *Server) stopListening(l Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	_ = l.Close() // it may be closed already
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// accept takes in a connection. One of a user who connects too fast is answered when it is
// its turn: until then it counts as one that he has, so that there are few of them. One whose
// turn is far away is closed.
func (s *Server) accept(conn *net.UnixConn) {
	process, err := processOf(conn)
	var w *socket
	if err == nil {
		w, err = newSocket(conn)
	}
	if err != nil {
		s.log.Tell(boundedlog.Line{Level: slog.LevelError, Text: "who has connected cannot be found out"}, slog.Any("err", err))
		_ = conn.Close()
		return
	}
	c := s.newClient(w, process)
	c.refusal = s.admit(c)
	s.mu.Lock()
	if c.refusal != nil {
		s.strangers++
	}
	most := s.longestTurn
	if c.refusal != nil {
		most = 0 // there may be few strangers at once
	}
	c.turn = s.turns.next(c.process.UID, s.config.Connects, c.since, most)
	taken := !s.closing && s.strangers <= strangersMax && c.turn <= most
	if taken {
		s.last++
		c.id = s.last
		s.clients[c.id] = c
		s.work.Add(1)
	} else if c.refusal != nil {
		s.strangers--
	}
	s.mu.Unlock()
	if !taken {
		c.cancel()
		c.leave()
		_ = conn.Close()
		return
	}
	go func() {
		defer s.work.Done()
		c.serve()
	}()
}

// newClient returns a client that nothing knows of yet.
func (s *Server) newClient(w wire, p Process) *client {
	c := &client{server: s, conn: w, process: p, since: time.Now(), pace: newPace(connectionQuotas.Requests)}
	c.ctx, c.cancel = context.WithCancel(s.context)
	return c
}

// admit finds the rule for a client, and charges its user for the connection. EACCES: there
// is none; EDQUOT.
func (s *Server) admit(c *client) error {
	rules := *s.rules.Load()
	for i := range rules {
		r := &rules[i]
		if !r.fits(&c.process) {
			continue
		}
		limits := r.User.amounts()
		if err := s.users.add(c.process.UID, &amounts{ofConnections: 1}, &limits); err != nil {
			return err
		}
		c.rule = r
		return nil
	}
	return fmt.Errorf("no rule is for user %d, group %d: %w", c.process.UID, c.process.GID, syscall.EACCES)
}

// leave gives back what admit charged.
func (c *client) leave() {
	if c.rule != nil {
		c.server.users.subtract(c.process.UID, &amounts{ofConnections: 1})
	}
}

// forget takes a client off the list that has nothing any more.
func (s *Server) forget(c *client) {
	c.leave()
	done, rule := c.tally(), ""
	if c.rule != nil {
		rule = c.rule.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c.id)
	if s.past[rule] == nil {
		s.past[rule] = &tally{}
	}
	s.past[rule].add(&done)
	s.prune()
	if c.refusal != nil {
		s.strangers--
	}
	if s.closing && len(s.clients) == 0 {
		close(s.gone)
	}
}

// Close has Serve return, tells clients that lnetd ends, and cuts off, Config.Farewell
// later or when ctx ends, those that are still there. When it returns nil all that they had
// is freed. It waits for that until ctx ends, and says what is left then; it may be called
// again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	clients := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		clients = append(clients, c)
	}
	if first && len(clients) == 0 {
		close(s.gone)
	}
	s.mu.Unlock()
	if first {
		s.farewell(ctx, clients)
	}
	for _, c := range clients {
		c.cutOff(fmt.Errorf("%w: %w", errEnd, syscall.ESHUTDOWN))
	}
	s.end() // or they would have that for a reason
	select {
	case <-s.gone:
		s.work.Wait()
		s.log.End()
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("clients: operations of %d clients do not end: %w", len(s.clients), ctx.Err())
	}
}

// farewell lets clients know, and waits until they are gone, or for a while.
func (s *Server) farewell(ctx context.Context, clients []*client) {
	wait := s.config.Farewell
	if wait == 0 || len(clients) == 0 {
		return
	}
	for _, c := range clients {
		c.notify(protocol.GoingDown(int((wait+time.Second-1)/time.Second), errEnd.Error()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.gone:
	case <-timer.C:
	case <-ctx.Done():
	}
}
