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

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// maxRejected is the maximum number of connections that are to be refused. Each is kept until its HELLO,
// so that the reply can contain the reason.
const maxRejected = 64

// errServerClosed is why clients are disconnected when the Server is closed.
var errServerClosed = errors.New("lnetd is stopping")

// Server lets other processes use transfer machines. Create it with New. Its methods are safe for
// concurrent use.
type Server struct {
	config Config
	rules  atomic.Pointer[[]Rule] // initially those of config
	// maxConnectDelay is the longest delay of a connection of a user who connects too fast.
	maxConnectDelay time.Duration
	users           users
	records         sync.Pool // of *[]byte, with room for a record and one byte more
	// context is the parent of the contexts of all connections.
	context context.Context
	cancel  context.CancelFunc
	clock   shm.Clock

	poller sharedPoller
	log    *boundedlog.Log
	work   sync.WaitGroup // connections

	mu           sync.Mutex // guards the rest
	listeners    map[Listener]struct{}
	clients      map[uint64]*client
	goneClients  map[string]*tally // of clients that have gone, by rule name
	lastID       uint64            // ID of the latest connection
	rejected     int
	connectPaces userPaces
	closing      bool
	allGone      chan struct{} // closed when closing is set and no client is left
}

// New returns a Server. It needs no Close unless Serve was called. It returns EINVAL if the Config is
// invalid.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, clock: shm.ReadClock(), log: boundedlog.New(c.Logger), allGone: make(chan struct{}),
		listeners: make(map[Listener]struct{}), clients: make(map[uint64]*client),
		goneClients: make(map[string]*tally), connectPaces: make(userPaces), maxConnectDelay: time.Second,
	}
	s.rules.Store(&c.Rules)
	s.records.New = func() any {
		b := make([]byte, protocol.MaxRecord+1)
		return &b
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// SetRules replaces the rules for future connections. No rules means DefaultRules. Existing connections
// keep the rule that they have. The counters of a removed rule disappear with its last client. SetRules
// returns EINVAL and changes nothing if a rule is invalid.
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

// timestamp converts a time to a completion timestamp: ns of CLOCK_MONOTONIC.
func (s *Server) timestamp(t time.Time) uint64 { return uint64(s.clock.Reading(t)) }

func (s *Server) now() uint64 { return s.timestamp(time.Now()) }

// Serve accepts clients on a listener until Close, and closes the listener before it returns. It returns
// nil after Close. It returns EPROTOTYPE if the sockets are not of type SOCK_SEQPACKET.
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
			// Existing clients are not affected. They may free resources.
			s.log.Report(boundedlog.Line{Level: slog.LevelError, Text: "cannot accept a client"}, slog.Any("err", err))
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

// acceptOne accepts a connection. It returns EMFILE if the descriptor is one of those that are kept free
// for other purposes than clients.
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

// accept starts to serve a connection. If its user connects too fast, the connection is served after a
// delay. It counts as one of the user's connections meanwhile, so there are only few of them. If the
// delay would be too long, the connection is closed.
func (s *Server) accept(conn *net.UnixConn) {
	process, err := processOf(conn)
	var w *socket
	if err == nil {
		w, err = newSocket(conn)
	}
	if err != nil {
		s.log.Report(boundedlog.Line{Level: slog.LevelError, Text: "cannot identify a client; it was refused"}, slog.Any("err", err))
		_ = conn.Close()
		return
	}
	c := s.newClient(w, process)
	c.refusal = s.admit(c)
	s.mu.Lock()
	if c.refusal != nil {
		s.rejected++
	}
	most := s.maxConnectDelay
	if c.refusal != nil {
		most = 0 // connections to be refused do not wait: few are kept at once
	}
	c.initialDelay = s.connectPaces.next(c.process.UID, s.config.Connects, c.since, most)
	taken := !s.closing && s.rejected <= maxRejected && c.initialDelay <= most
	if taken {
		s.lastID++
		c.id = s.lastID
		s.clients[c.id] = c
		s.work.Add(1)
	} else if c.refusal != nil {
		s.rejected--
	}
	s.mu.Unlock()
	if !taken {
		c.cancel()
		c.unadmit()
		_ = conn.Close()
		return
	}
	go func() {
		defer s.work.Done()
		c.serve()
	}()
}

// newClient returns a client that is not registered yet.
func (s *Server) newClient(w wire, p Process) *client {
	c := &client{server: s, conn: w, process: p, since: time.Now(), requestRate: newRateLimit(connectionQuotas.Requests)}
	c.ctx, c.cancel = context.WithCancel(s.context)
	return c
}

// admit finds the rule for a client and charges the connection to its user. It returns EACCES if no rule
// matches, and EDQUOT if the user has too many connections.
func (s *Server) admit(c *client) error {
	rules := *s.rules.Load()
	for i := range rules {
		r := &rules[i]
		if !r.appliesTo(&c.process) {
			continue
		}
		limits := r.User.amounts()
		if err := s.users.add(c.process.UID, &amounts{ofConnections: 1}, &limits); err != nil {
			return err
		}
		c.rule = r
		return nil
	}
	return fmt.Errorf("no rule permits user %d, group %d: %w", c.process.UID, c.process.GID, syscall.EACCES)
}

// unadmit releases what admit charged.
func (c *client) unadmit() {
	if c.rule != nil {
		c.server.users.subtract(c.process.UID, &amounts{ofConnections: 1})
	}
}

// removeClient removes a client that holds nothing any more. Its counters are added to those of its rule.
func (s *Server) removeClient(c *client) {
	c.unadmit()
	done, rule := c.tally(), ""
	if c.rule != nil {
		rule = c.rule.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c.id)
	if s.goneClients[rule] == nil {
		s.goneClients[rule] = &tally{}
	}
	s.goneClients[rule].add(&done)
	s.prune()
	if c.refusal != nil {
		s.rejected--
	}
	if s.closing && len(s.clients) == 0 {
		close(s.allGone)
	}
}

// Close makes Serve return, notifies clients that lnetd ends, and disconnects the remaining ones after
// Config.Farewell or when ctx is done. It then waits until everything that they held is released. If ctx
// is done before, it returns an error with the number of clients left. It may be called again.
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
		close(s.allGone)
	}
	s.mu.Unlock()
	if first {
		s.notifyAndWait(ctx, clients)
	}
	for _, c := range clients {
		c.cutOff(fmt.Errorf("%w: %w", errServerClosed, syscall.ESHUTDOWN))
	}
	s.cancel() // last, so that the clients see errServerClosed and not a canceled context
	select {
	case <-s.allGone:
		s.work.Wait()
		s.log.End()
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("clients: operations of %d clients are still pending: %w", len(s.clients), ctx.Err())
	}
}

// notifyAndWait notifies clients, and waits until all have gone, for up to Config.Farewell.
func (s *Server) notifyAndWait(ctx context.Context, clients []*client) {
	wait := s.config.Farewell
	if wait == 0 || len(clients) == 0 {
		return
	}
	for _, c := range clients {
		c.notify(protocol.GoingDown(int((wait+time.Second-1)/time.Second), errServerClosed.Error()))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.allGone:
	case <-timer.C:
	case <-ctx.Done():
	}
}
