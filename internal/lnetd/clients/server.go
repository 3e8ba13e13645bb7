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
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// maxRejected is the maximum number of connections to be refused that are open at a time. Such a
// connection stays open until its HELLO, so that the reply can contain the reason. Further ones are closed
// without a reason.
const maxRejected = 64

// errServerClosed is the reason for which clients are disconnected when the Server is closed.
var errServerClosed = errors.New("lnetd is stopping")

// Server lets other processes use transfer machines. Create it with New. Its methods are safe for
// concurrent use.
type Server struct {
	config Config
	rules  atomic.Pointer[[]Rule] // initially those of config
	// maxConnectDelay is the longest delay of a connection. If the user connects so fast that a
	// connection would have to wait longer, it is closed.
	maxConnectDelay time.Duration
	users           users
	records         sync.Pool // of *[]byte, one byte longer than a valid record, so that longer records are detected
	// context is the parent of the contexts of all connections.
	context context.Context
	cancel  context.CancelFunc
	clock   shared.Clock

	hubs    []*hub
	passes  passes
	nextHub atomic.Uint32 // counts the TMs that got a hub
	log     *boundedlog.Log
	work    sync.WaitGroup // goroutines of connections

	mu           sync.Mutex // guards the fields below
	listeners    map[Listener]struct{}
	clients      map[uint64]*client
	goneClients  map[string]*tally // sums of the counters of removed clients, by rule name
	lastID       uint64            // ID of the latest connection
	rejected     int               // number of open connections that are to be refused
	connectPaces userPaces
	closing      bool
	allGone      chan struct{} // closed when closing is set and no client is left
}

// New returns a Server with the configuration c. If Serve is called, Close must be called too. New returns
// EINVAL if c is invalid.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, clock: shared.ReadClock(), log: boundedlog.New(c.Logger), allGone: make(chan struct{}),
		listeners: make(map[Listener]struct{}), clients: make(map[uint64]*client),
		goneClients: make(map[string]*tally), connectPaces: make(userPaces), maxConnectDelay: time.Second,
	}
	s.rules.Store(&c.Rules)
	s.records.New = func() any {
		b := make([]byte, protocol.MaxRecord+1)
		return &b
	}
	s.hubs = newHubs(&s.config, s.clock, &s.passes)
	s.context, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// SetRules replaces the rules for future connections. If there are no rules, DefaultRules apply. Existing
// connections keep the rule that they have. The counters of a rule that is no longer among the rules
// disappear with its last client. If a rule is invalid, SetRules returns EINVAL and changes nothing.
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

// timestamp converts a time to the timestamp of a completion, in nanoseconds of CLOCK_MONOTONIC.
func (s *Server) timestamp(t time.Time) uint64 { return uint64(s.clock.Reading(t)) }

func (s *Server) now() uint64 { return s.timestamp(time.Now()) }

// Serve accepts clients on a listener until Close is called; it then returns nil. It always closes the
// listener. It returns EPROTOTYPE if the socket is not of type SOCK_SEQPACKET.
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
			// Serve continues, because existing clients are not affected and may free resources.
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

// acceptOne waits for a connection and accepts it. It returns EMFILE if the process has so many open
// descriptors that the rest is reserved for other purposes than clients.
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

// accept starts a goroutine that serves a connection. If the user connects too fast, the connection is
// served after a delay, or closed if the delay would exceed maxConnectDelay. A delayed connection counts
// towards the user's quota, so the number of delayed connections is limited.
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
		most = 0 // a connection to be refused is not delayed, because only maxRejected of them may be open
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

// newClient returns a client for a connection of the process p. It is not in s.clients yet.
func (s *Server) newClient(w wire, p Process) *client {
	c := &client{server: s, conn: w, process: p, since: time.Now(), requestRate: newRateLimit(connectionQuotas.Requests)}
	c.ctx, c.cancel = context.WithCancel(s.context)
	return c
}

// admit stores the rule that applies to a client, and counts the connection towards its user's quota. It
// returns EACCES if no rule applies, and EDQUOT if the user has too many connections.
func (s *Server) admit(c *client) error {
	rules := *s.rules.Load()
	for i := range rules {
		r := &rules[i]
		if !r.appliesTo(&c.process) {
			continue
		}
		if err := s.users.add(c.process.UID, &c.usage, &amounts{ofConnections: 1}, r); err != nil {
			return err
		}
		c.rule = r
		return nil
	}
	return fmt.Errorf("no rule permits user %d, group %d: %w", c.process.UID, c.process.GID, syscall.EACCES)
}

// unadmit reverts admit: the connection no longer counts towards its user's quota.
func (c *client) unadmit() {
	if c.rule != nil {
		c.uncharge(amounts{ofConnections: 1})
	}
}

// removeClient removes a client whose resources have been released, and adds its counters to the sums for
// its rule.
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

// Close makes Serve return and notifies the clients that lnetd is stopping. After Config.Farewell, or when
// ctx is done, it disconnects the remaining clients. It then waits until all of their resources are
// released. If ctx is done before, Close returns an error with the number of clients left, and may be
// called again to wait longer.
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
		for _, h := range s.hubs {
			h.close()
		}
		s.log.End()
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("clients: operations of %d clients are still pending: %w", len(s.clients), ctx.Err())
	}
}

// notifyAndWait notifies clients that lnetd is stopping. It waits until all of them have closed their
// connections, for at most Config.Farewell or until ctx is done.
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
