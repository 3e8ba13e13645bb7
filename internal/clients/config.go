package clients

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// Config says how a Server is.
type Config struct {
	// Core is what the domains of clients stand on. Its CoreDomains are completion.Domains.
	Core transport.Core
	// Rules say who may connect, and what he may have: the first one that fits a client
	// holds. None: DefaultRules.
	Rules []Rule
	// Logger hears of clients that end without having given back what they had, and of
	// those that are cut off. Nil: nobody.
	Logger *slog.Logger
	// Incarnation tells this Server from the next one; 0: of the time of New.
	Incarnation uint64

	// Grace is how long a client's operations have to end when it is gone, before its TMs
	// and memory are left behind until they do. 0: 5 s.
	Grace time.Duration
	// Farewell is how long clients have from when Close tells them that lnetd ends until
	// they are cut off. 0: not at all.
	Farewell time.Duration
	// PollTime is how long submission rings are polled before lnetd sleeps, for clients that
	// ask for it. 0: it does not, and who asks is told so.
	PollTime time.Duration
	// HelloTime is how long a client has for its first request, and for reading any reply.
	// 0: 10 s.
	HelloTime time.Duration
	// Connects is how many connections of one user are answered in a second, as many at
	// once, and no more in the long run: those that come faster wait for their turn. 0: 200.
	Connects int
}

const (
	defaultGrace     = 5 * time.Second
	defaultHelloTime = 10 * time.Second
	defaultConnects  = 200
)

// withDefaults is c with all of it set. EINVAL: it cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Core == nil {
		return c, fmt.Errorf("clients: no Core: %w", syscall.EINVAL)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Incarnation == 0 {
		c.Incarnation = uint64(time.Now().UnixNano())
	}
	if c.Connects < 0 {
		return c, fmt.Errorf("clients: %d connections in a second: %w", c.Connects, syscall.EINVAL)
	}
	c.Connects = cmp.Or(c.Connects, defaultConnects)
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.Grace, defaultGrace}, {&c.Farewell, 0}, {&c.PollTime, 0}, {&c.HelloTime, defaultHelloTime}} {
		if *d.value < 0 {
			return c, fmt.Errorf("clients: negative time %v: %w", *d.value, syscall.EINVAL)
		}
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	var err error
	c.Rules, err = rulesWithDefaults(c.Rules)
	return c, err
}

// errnoOf is the errno of an error, else EIO.
func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno > 0 {
		return errno
	}
	return syscall.EIO
}
