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

// defaultTimeout is how long a session exists without a command (selftest 7.7).
const defaultTimeout = 300 * time.Second

// SessionOptions are the options of NewSession.
type SessionOptions struct {
	Key  Key    `json:"key"` // 0: chosen by NewSession
	Name string `json:"name"`
	// Timeout is how long the session exists without a command. 0 or less means 300 s.
	Timeout time.Duration `json:"timeout"`
	// Force ends the current session of this console and takes nodes from other consoles.
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

// session is the state of a session. Console.mu guards everything that changes.
type session struct {
	id      message.SessionID
	name    message.Name
	key     Key
	timeout time.Duration
	force   bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	slot   chan struct{}  // held by commands that change the session
	work   sync.WaitGroup // commands, keep-alives, runs; none begins while ending is set
	ended  chan struct{}  // closed when the session has ended

	ending   bool
	commands int           // number of commands being executed
	last     time.Time     // when a command began or ended last
	every    time.Duration // interval of keep-alive checks
	look     *time.Timer   // fires at the next check

	features message.Features
	decided  bool // a node has decided on the features
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

// NewSession begins a session. Errors: EEXIST if a session exists and Force is not set, EPROTO if features
// are unknown, EINVAL if the name is invalid.
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
		i, former, err := c.found(o, features, nid)
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

// found creates a session, or returns the session that must end before.
func (c *Console) found(o SessionOptions, f message.Features, nid message.NID4) (SessionInfo, *session, error) {
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
	// Kernels count from their boot. This is as good, and also differs after a reboot.
	c.stamp = max(c.stamp+1, c.Wall().UnixMilli())
	s := &session{
		id: message.SessionID{NID: nid, Stamp: c.stamp}, name: message.NameOf(o.Name), key: o.Key,
		timeout: o.Timeout, force: o.Force, features: f,
		slot: make(chan struct{}, 1), ended: make(chan struct{}),
		last: time.Now(), every: keepInterval, look: time.NewTimer(keepInterval),
		byID: map[lnet.ProcessID]*member{},
	}
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	c.session = s
	c.newBatch(s, "batch")
	c.work.Go(func() { c.keep(s) })
	c.Logger.Info("selftest: console session began", "session", s.id.String(), "name", o.Name)
	return s.info(), nil, nil
}

func (s *session) info() SessionInfo {
	return SessionInfo{
		Name: s.name.String(), NID: s.id.NID.NID(), Stamp: s.id.Stamp, Key: s.key, Features: uint32(s.features),
		Timeout: s.timeout, Force: s.force, Nodes: len(s.members),
	}
}

// ShowSession describes the session, regardless of its key. It does not keep the session alive. It
// returns ESRCH if no session exists.
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

// EndSession ends the session: first its running commands, then the session on its nodes. If ctx is
// canceled, the session still ends in the background.
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

// endLocked starts to end a session, unless it is ending already. s.ended is closed when the session has
// ended.
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

// remove removes the session from nodes, as often as it may have been made there, because nodes count
// references. Nodes that are not known to be in the session have less time to answer. The result has a
// row for each node that was asked.
func (c *Console) remove(ctx context.Context, s *session, members []*member) Result {
	all := Result{Nodes: []NodeResult{}}
	row := map[*member]int{}
	for {
		var legs []*leg
		c.mu.Lock()
		for _, m := range members {
			if m.makes == 0 {
				continue
			}
			m.makes--
			l := &leg{
				member: m, reply: new(message.RemoveSessionReply), limit: defaultLimit,
				request: &message.RemoveSessionRequest{Header: message.NewHeader(m.features), Session: s.id},
			}
			if m.state != Active {
				l.limit = minLimit
			}
			legs = append(legs, l)
		}
		c.mu.Unlock()
		if len(legs) == 0 {
			break
		}
		r := c.transact(ctx, s, 0, legs, func(status message.Status) bool {
			return status == message.OK || status == message.ESRCH
		})
		members = nil
		for k, n := range r.Nodes {
			m := legs[k].member
			if at, ok := row[m]; ok {
				all.Nodes[at] = n
			} else {
				row[m] = len(all.Nodes)
				all.Nodes = append(all.Nodes, n)
			}
			if n.RPC == 0 && n.State == Active {
				members = append(members, m) // another reference
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
