package remote

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// Config selects the lnetd to connect to, and sets options. The zero value selects the lnetd of this host.
type Config struct {
	// Path is the path of the socket on which lnetd accepts programs. Empty means the result of FindSocket.
	Path string
	// Program is the name of this program shown by lnetd: printable ASCII, of which 31 bytes are shown.
	// Empty means the last element of os.Args[0].
	Program string
	// Completions is the number of events of a TM that fit into the memory shared with lnetd. lnetd keeps
	// further ones in its own memory until the TM has processed earlier ones, which costs a wake-up of lnetd
	// now and then. The number is rounded up to a power of two. Each event uses 576 bytes of memory. 0 means
	// 1024. The maximum is 16384, or less if lnetd's quotas are lower.
	//
	// The number does not limit what may be queued. lnetd's quota of completion entries does, 65536 by
	// default for all TMs of a domain: it must cover Completions of each TM and the expected events, which
	// are MaxMessages for a queued buffer on MsgRecv and one for any other queued buffer. Add returns ENOBUFS
	// otherwise.
	Completions int
	// CopyMemory is the maximum total size of the registered buffers whose data a domain copies, in bytes.
	// Buffers are not copied if they are in memory of Domain.Buffer, or in whole pages of private memory. A
	// process can use at most 1024 different ranges of private memory in this way during its lifetime;
	// buffers in others are copied. 0 means 64 MiB. A negative value means that no buffer is copied, and
	// Register returns EDQUOT instead.
	CopyMemory int
	// PollTime is how long a TM's worker polls for events at most, before it sleeps. Polling reduces latency but
	// occupies a processor. The time is reduced while polling finds no events, and the worker does not poll while
	// other threads need the processors. 0 means 100 µs, or no polling if GOMAXPROCS is 1. A negative
	// value means no polling.
	PollTime time.Duration
	// Patience is how long lnetd may send nothing during calls that have no context: Add of a buffer that
	// peers are to reach, and the end of a TM, a buffer or memory. After this time the connection is closed,
	// as if lnetd had ended, and all TMs of the domain fail with ETIMEDOUT and EPIPE. Operations that were
	// cancelled or have passed their deadline end after one second without an answer of lnetd, or after
	// Patience if that is shorter. 0 or a negative value means 30 s.
	Patience time.Duration
}

// defaultCompletions is the default of Config.Completions.
const defaultCompletions = 1024

// defaultCopyMemory is the default of Config.CopyMemory.
const defaultCopyMemory = 64 << 20

// defaultPatience is the default of Config.Patience.
const defaultPatience = 30 * time.Second

// Core is the transport.Core that uses a running lnetd. New creates a Core. It is safe for concurrent use.
type Core struct {
	config   Config
	exchange *exchange

	mu          sync.Mutex // guards the fields below
	domains     map[*domain]struct{}
	closedStats Stats // sum of the statistics of closed domains
}

var _ transport.Core = (*Core)(nil)

// New creates a Core. It does not connect to lnetd; each domain opens its own connection. A Core need not be
// closed, but its domains must be.
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
	c.PollTime = max(0, cmp.Or(c.PollTime, polling.DefaultTime))
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	return &Core{config: c, exchange: processExchange, domains: make(map[*domain]struct{})}
}

// Name returns "lnetd".
func (*Core) Name() string { return "lnetd" }

// Open connects to lnetd and negotiates the parameters of the connection. It returns ENOENT if the socket
// does not exist; ECONNREFUSED if no process listens on it, or it is not a socket; EINVAL if its path is too
// long; EACCES if this user may not connect, or lnetd has no rule for the user; EPROTO if the versions differ
// or the peer is not lnetd; and EDQUOT if the user has too many connections (transport 3.3). The error names
// the socket and a remedy.
func (c *Core) Open(ctx context.Context) (transport.CoreDomain, error) {
	if n := c.config.Completions; n < 1 || n > protocol.MaxCompletions {
		return nil, fmt.Errorf("remote: Config.Completions %d is not within 1 to %d: %w", n, protocol.MaxCompletions, syscall.EINVAL)
	}
	path := c.config.Path
	if path == "" {
		path = FindSocket()
	}
	d, err := c.open(ctx, path)
	if err != nil {
		return nil, explainDial(path, err)
	}
	c.mu.Lock()
	c.domains[d] = struct{}{}
	c.mu.Unlock()
	return d, nil
}

// open is like Open, but returns the error without a remedy.
func (c *Core) open(ctx context.Context, path string) (*domain, error) {
	socket, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	d := newDomain(c, socket)
	if err := d.exchangeHello(ctx); err != nil {
		d.connection.close()
		return nil, err
	}
	return d, nil
}

// removeDomain removes a closed domain from the Core, and adds its statistics to closedStats.
func (c *Core) removeDomain(d *domain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.domains[d]; there {
		delete(c.domains, d)
		last := d.stats()
		c.closedStats.add(&last)
	}
}
