package clients

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/transport"
)

// Config configures a Server.
type Config struct {
	// Core opens the domains of clients. Each of these domains must be a completion.Domain.
	Core transport.Core
	// Rules define which clients may connect and what they may use. The first rule that matches a client
	// applies. If Rules is empty, DefaultRules applies.
	Rules []Rule
	// Logger receives messages about clients that exit without releasing their resources, and about
	// clients that are disconnected. If it is nil, the messages are discarded.
	Logger *slog.Logger
	// Incarnation is a number with which clients distinguish this Server from a later one. If it is 0, the
	// time of the call of New is used.
	Incarnation uint64

	// Grace is how long lnetd waits for the operations of a client that has disconnected. After that, it
	// releases everything except the TMs and memory that operations still use. 0 means 5 s.
	Grace time.Duration
	// Farewell is how long Close waits, after it has notified the clients, before it disconnects them. 0
	// means no wait.
	Farewell time.Duration
	// PollTime is how long lnetd polls the submission rings of its clients at most, before it sleeps. 0 means
	// polling.DefaultTime. A negative value disables polling.
	PollTime time.Duration
	// HelloTime is how long a client may take to send its first request, and to read any reply. 0 means
	// 10 s.
	HelloTime time.Duration
	// Connects is the number of connections that one user may make per second, and the largest number at
	// once. Further connections are delayed. 0 means 200.
	Connects int

	hubs int // number of hubs; 0 means that it depends on the processors
}

const (
	defaultGrace     = 5 * time.Second
	defaultHelloTime = 10 * time.Second
	defaultConnects  = 200
)

// withDefaults returns c with defaults filled in, or EINVAL if c is invalid.
func (c Config) withDefaults() (Config, error) {
	if c.Core == nil {
		return c, fmt.Errorf("clients: Core is not set: %w", syscall.EINVAL)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Incarnation == 0 {
		c.Incarnation = uint64(time.Now().UnixNano())
	}
	if c.Connects < 0 {
		return c, fmt.Errorf("clients: negative number of connections per second, %d: %w", c.Connects, syscall.EINVAL)
	}
	c.Connects = cmp.Or(c.Connects, defaultConnects)
	if c.PollTime == 0 {
		c.PollTime = polling.DefaultTime
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.Grace, defaultGrace}, {&c.Farewell, 0}, {&c.HelloTime, defaultHelloTime}} {
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

// errnoOf returns the errno that an error contains, or EIO if it contains none.
func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno > 0 {
		return errno
	}
	return syscall.EIO
}
