package console

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// defaultTimeout is the time after which a session ends if no command arrives (selftest 7.7).
const defaultTimeout = 300 * time.Second

// SessionOptions are the options of NewSession.
type SessionOptions struct {
	Key  Key    `json:"key"` // 0 means that NewSession chooses a key
	Name string `json:"name"`
	// Timeout is the time after which the session ends if no command arrives. 0 or less means 300 s.
	Timeout time.Duration `json:"timeout"`
	// Force means that NewSession ends the current session of this console, and that nodes that join leave
	// the sessions of other consoles.
	Force bool `json:"force"`
	// Features are the features to request from nodes (LST_FEATURES). nil means all.
	Features *uint32 `json:"features,omitempty"`
}

// SessionInfo describes a session.
type SessionInfo struct {
	Name     string        `json:"name"`
	NID      lnet.NID      `json:"nid"`   // of the console
	Stamp    int64         `json:"stamp"` // milliseconds
	Key      Key           `json:"key"`
	Features uint32        `json:"features"`
	Timeout  time.Duration `json:"timeout"`
	Force    bool          `json:"force"`
	Nodes    int           `json:"nodes"`
}

// session is the console's session. Console.mu guards everything that changes.
type session struct {
	id      message.SessionID
	name    message.Name
	key     Key
	timeout time.Duration
	force   bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	slot   chan struct{}  // the lock of commands that change the session; contains an element while a command holds it
	work   sync.WaitGroup // counts commands, keep-alive rounds and timed runs; does not grow while ending is set
	ended  chan struct{}  // closed when the session has ended

	ending   bool
	commands int           // number of commands that are running
	last     time.Time     // when a command last began or ended
	every    time.Duration // interval of keep-alive checks
	look     *time.Timer   // triggers the next keep-alive check

	features message.Features
	decided  bool // a node has determined the features
	members  []*member
	byID     map[lnet.ProcessID]*member
	groups   []*group
	batches  []*batch
}

func (s *session) enter() {
	s.work.Add(1)
	s.commands++
	s.last = time.Now()
}

func (s *session) header() message.Header { return message.NewHeader(s.features) }

// NewSession begins a session. It returns EEXIST if a session exists and Force is not set, EPROTO if features
// are unknown, and EINVAL if the name is invalid.
func (c *Console) NewSession(ctx context.Context, o SessionOptions) (SessionInfo, error) {
	if err := checkName("session", o.Name); err != nil {
		return SessionInfo{}, err
	}
	features := message.Supported
	if o.Features != nil {
		features = message.Features(*o.Features)
	}
	if unknown := features &^ message.Supported; unknown != 0 {
		return SessionInfo{}, refuse(syscall.EPROTO, "session", o.Name, "unknown features %#x", uint32(unknown))
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	for o.Key == 0 {
		o.Key = Key(rand.Int32())
	}
	nid, err := c.name()
	if err != nil {
		return SessionInfo{}, err
	}
	for {
		i, former, err := c.createSession(o, features, nid)
		if former == nil {
			return i, err
		}
		select {
		case <-former.ended:
		case <-ctx.Done():
			return SessionInfo{}, context.Cause(ctx)
		}
	}
}

// createSession creates a session. If the current session must end first, it begins to end it and returns it;
// the caller must wait for its end and call createSession again.
func (c *Console) createSession(o SessionOptions, f message.Features, nid message.NID4) (SessionInfo, *session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch old := c.session; {
	case c.closed:
		return SessionInfo{}, nil, errClosed
	case old == nil:
	case old.ending || o.Force:
		c.endLocked(old)
		return SessionInfo{}, old, nil
	default:
		return SessionInfo{}, nil, &Error{Errno: syscall.EEXIST, What: "session", Name: old.name.String()}
	}
	// Kernels use the time since their boot as the stamp. The wall clock serves as well, and also differs
	// after a reboot.
	c.stamp = max(c.stamp+1, c.Wall().UnixMilli())
	s := &session{
		id: message.SessionID{NID: nid, Stamp: c.stamp}, name: message.NameOf(o.Name), key: o.Key,
		timeout: o.Timeout, force: o.Force, features: f,
		slot: make(chan struct{}, 1), ended: make(chan struct{}),
		last: time.Now(), every: keepAliveInterval, look: time.NewTimer(keepAliveInterval),
		byID: map[lnet.ProcessID]*member{},
	}
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	c.session = s
	c.newBatch(s, "batch")
	c.work.Go(func() { c.keepAlive(s) })
	c.Logger.Info("selftest: console session began", "session", s.id.String(), "name", o.Name)
	return s.info(), nil, nil
}

func (s *session) info() SessionInfo {
	return SessionInfo{
		Name: s.name.String(), NID: s.id.NID.NID(), Stamp: s.id.Stamp, Key: s.key, Features: uint32(s.features),
		Timeout: s.timeout, Force: s.force, Nodes: len(s.members),
	}
}

// ShowSession describes the session, whatever its key is. It does not count as a command that keeps the
// session alive. It returns ESRCH if no session exists.
func (c *Console) ShowSession() (SessionInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := c.session; {
	case s == nil:
		return SessionInfo{}, errNone
	case s.ending:
		return SessionInfo{}, errEnding
	default:
		return s.info(), nil
	}
}

// EndSession ends the session: first its running commands, then the session on its nodes. It waits until all
// that has ended. If ctx is done before, EndSession returns its cause, and the session ends in the
// background.
func (c *Console) EndSession(ctx context.Context, key Key) error {
	x, err := c.begin(ctx, key)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.endLocked(x.session)
	c.mu.Unlock()
	x.end()
	select {
	case <-x.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endLocked begins to end a session, unless that has begun already. s.ended is closed when the session has
// ended. The caller holds c.mu.
func (c *Console) endLocked(s *session) {
	if s.ending {
		return
	}
	s.ending = true
	s.cancel(errEnding)
	c.work.Go(func() {
		s.work.Wait()
		c.mu.Lock()
		members := s.members
		c.mu.Unlock()
		c.remove(c.ctx, s, members)
		c.mu.Lock()
		c.session = nil
		c.mu.Unlock()
		close(s.ended)
		c.Logger.Info("selftest: console session ended", "session", s.id.String())
	})
}

// remove ends the session on nodes. It sends remove-session requests to each node until the node has no
// reference to the session any more. Nodes that are not known to be in the session have less time to answer.
// The result has a row for each node to which a request was sent.
func (c *Console) remove(ctx context.Context, s *session, members []*member) Result {
	all := Result{Nodes: []NodeResult{}}
	row := map[*member]int{}
	for {
		var requests []*nodeRequest
		c.mu.Lock()
		for _, m := range members {
			if m.makes == 0 {
				continue
			}
			m.makes--
			l := &nodeRequest{
				member: m, reply: new(message.RemoveSessionReply), limit: defaultLimit,
				request: &message.RemoveSessionRequest{Header: message.NewHeader(m.features), Session: s.id},
			}
			if m.state != Active {
				l.limit = minLimit
			}
			requests = append(requests, l)
		}
		c.mu.Unlock()
		if len(requests) == 0 {
			break
		}
		r := c.transact(ctx, s, 0, requests, func(status message.Status) bool {
			return status == message.OK || status == message.ESRCH
		})
		members = nil
		for k, n := range r.Nodes {
			m := requests[k].member
			if at, ok := row[m]; ok {
				all.Nodes[at] = n
			} else {
				row[m] = len(all.Nodes)
				all.Nodes = append(all.Nodes, n)
			}
			if n.RPC == 0 && n.State == Active {
				members = append(members, m) // the node has another reference
			} else {
				c.mu.Lock()
				m.makes = 0
				c.mu.Unlock()
			}
		}
	}
	all.Sum()
	return all
}
