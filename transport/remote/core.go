package remote

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// Config says which lnetd, and how. The zero value is that of this host.
type Config struct {
	// Path is the socket on which lnetd waits for programs; "": FindSocket's.
	Path string
	// Program is what lnetd's user sees of this one, in printable ASCII of which 31 bytes are
	// shown; "": the last part of os.Args[0].
	Program string
	// Completions is for how many events that are to come, or wait, a TM has room: of buffers,
	// MaxMessages for each one on MsgRecv and one for any other; and 8 of its own. It is
	// rounded up to a power of two, and does not grow: who adds more gets ENOBUFS. Each
	// takes 576 bytes. 0: 1024; at most 16384, and less if lnetd's quotas say so.
	Completions int
	// CopyMemory bounds the bytes of buffers that a domain copies: those in memory neither of
	// Domain.Buffer, nor of whole pages of private memory, of which a process may have 1024
	// different ranges without copies, ever. 0: 64 MiB; less: none.
	CopyMemory int
	// PollTime is how long who waits for an event looks for it, with a processor for itself,
	// before it sleeps; and that lnetd shall do the same with ops, as long as its settings
	// say. If it has been in vain, it is less the next time. 0: not at all.
	PollTime time.Duration
	// Patience is how long lnetd may be silent while what has no context waits for it: Add of a
	// buffer that peers are to reach, the end of a TM, of a buffer, or of memory. The connection
	// is given up then, as if lnetd were gone: all TMs of the domain fail with ETIMEDOUT and
	// EPIPE. Operations that were cancelled, or have passed their deadlines, end after a second
	// of silence, or after Patience if that is less. 0, or less: 30 s.
	Patience time.Duration
}

// defaultCompletions is Config.Completions by default.
const defaultCompletions = 1024

// defaultCopyMemory is Config.CopyMemory by default.
const defaultCopyMemory = 64 << 20

// defaultPatience is Config.Patience by default.
const defaultPatience = 30 * time.Second

// Core is a way to LNet by lnetd. New makes it. It is safe for concurrent use.
type Core struct {
	config   Config
	exchange *exchange

	mu      sync.Mutex // guards the rest
	domains map[*domain]struct{}
	past    Stats // of domains that are closed
}

var _ transport.Core = (*Core)(nil)

// New makes a Core. Nothing is connected until a domain is opened, and each has a
// connection of its own. Nothing has to be closed but those.
func New(c Config) *Core {
	if c.Program == "" && len(os.Args) > 0 {
		c.Program = filepath.Base(os.Args[0])
	}
	if c.Completions == 0 {
		c.Completions = defaultCompletions
	}
	switch {
	case c.CopyMemory == 0:
		c.CopyMemory = defaultCopyMemory
	case c.CopyMemory < 0:
		c.CopyMemory = 0
	}
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	return &Core{config: c, exchange: ofProcess, domains: make(map[*domain]struct{})}
}

// Name is "lnetd".
func (*Core) Name() string { return "lnetd" }

// Open connects, and agrees with lnetd on what there is to be. ENOENT: there is no socket;
// ECONNREFUSED: nobody listens on it, or it is none; EINVAL: its path is too long; EACCES: this user may not connect, or lnetd has no
// rule for him; EPROTO: it speaks another version, or is no lnetd; EDQUOT: the user has too
// many connections (transport 3.3). The error says which socket it was about, and what to do.
func (c *Core) Open(ctx context.Context) (transport.CoreDomain, error) {
	if n := c.config.Completions; n < 1 || n > protocol.MaxCompletions {
		return nil, fmt.Errorf("remote: Config.Completions is %d, not 1 to %d: %w", n, protocol.MaxCompletions, syscall.EINVAL)
	}
	path := c.config.Path
	if path == "" {
		path = FindSocket()
	}
	d, err := c.open(ctx, path)
	if err != nil {
		return nil, explain(path, err)
	}
	c.mu.Lock()
	c.domains[d] = struct{}{}
	c.mu.Unlock()
	return d, nil
}

// open is Open without words for the error.
func (c *Core) open(ctx context.Context, path string) (*domain, error) {
	socket, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	d := newDomain(c, socket)
	if err := d.greet(ctx); err != nil {
		d.connection.close()
		return nil, err
	}
	return d, nil
}

// forget takes a closed domain out, and keeps its figures.
func (c *Core) forget(d *domain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.domains[d]; there {
		delete(c.domains, d)
		last := d.stats()
		c.past.add(&last)
	}
}
