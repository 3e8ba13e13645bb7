package nettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// NodeConfig configures a node.
type NodeConfig struct {
	Domain *transport.Domain
	// Address is the address at which the node receives commands.
	Address string
	// Consoles lists the addresses from which the node accepts commands. If it is empty, the node accepts
	// commands from any address.
	Consoles []string
	// Idle is the time after which a test is stopped if its console sends no more commands. 0 means
	// IdleTime.
	Idle time.Duration
	// Once makes Done receive the result of the first test that a console requests. The caller then closes
	// the node.
	Once bool
	// Logger receives the node's log messages. If it is nil, they are discarded.
	Logger *slog.Logger
}

// IdleTime is the default of NodeConfig.Idle.
const IdleTime = 30 * time.Second

// prepareTime is the time limit for the preparation of a test.
const prepareTime = 8 * time.Second

// Node is a server or a client in tests that consoles control. It has at most one test at a time. Create
// it with StartNode.
type Node struct {
	config     NodeConfig
	consoles   map[transport.Address]bool
	mailbox    *mailbox
	log        *slog.Logger
	onceResult chan error // with Once: receives the result of the test

	mu      sync.Mutex // held while a command is executed
	run     *testRun
	console transport.Address // address of the console that requested the test
	expiry  *time.Timer       // stops the test if the console sends no more commands
}

// command is a queued command.
type command struct {
	*message.Command
	from *transport.EndPoint // holds a reference
}

// StartNode starts a node. The caller must close it.
func StartNode(ctx context.Context, c NodeConfig) (*Node, error) {
	n := &Node{config: c, consoles: map[transport.Address]bool{}, log: c.Logger, onceResult: make(chan error, 1)}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.config.Idle == 0 {
		n.config.Idle = IdleTime
	}
	for _, s := range c.Consoles {
		a, err := transport.ParseAddress(s)
		if err != nil {
			return nil, err
		}
		n.consoles[a] = true
	}
	var err error
	n.mailbox, err = openMailbox(ctx, c.Domain, c.Address, mailboxBuffers, n.handleMessage, nil)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Address returns the address at which the node receives commands.
func (n *Node) Address() transport.Address { return n.mailbox.loop.Address() }

// Done returns a channel that receives, with NodeConfig.Once, the error with which the node's test has
// ended: nil if the console has stopped the test. Without Once it receives an error if a console falls
// silent.
func (n *Node) Done() <-chan error { return n.onceResult }

// Close stops the node's test, if any, and closes the node.
func (n *Node) Close(ctx context.Context) error {
	err := n.mailbox.close(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(err, n.stop(ctx))
}

// handleMessage decodes a message and posts the execution of the command to the loop. It ignores answers
// and messages that are not commands.
func (n *Node) handleMessage(b []byte, from *transport.EndPoint) {
	c, err := message.ParseCommand(b)
	if err != nil {
		n.log.Warn("ignoring a message that is not a command", "from", from.String(), "err", err)
		return
	}
	if c.Type%2 == 0 {
		return // an answer to an answer would cause another answer, without end
	}
	cmd := command{c, from.Get()}
	if !n.mailbox.loop.Post(func() { n.execute(cmd) }) {
		cmd.from.Put()
	}
}

// execute executes a command and sends the answer to its sender.
func (n *Node) execute(c command) {
	defer c.from.Put()
	n.mu.Lock()
	defer n.mu.Unlock()
	answer := &message.Command{Type: c.Type.Answer(), Sequence: c.Sequence}
	err := n.do(c, answer)
	if err != nil {
		n.log.Warn("command refused", "command", c.Type.String(), "from", c.from.String(), "err", err)
		answer.Errno, answer.Figures = errnoOf(err), nil
	} else {
		n.log.Info("command done", "command", c.Type.String(), "from", c.from.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	if err := n.mailbox.send(ctx, answer, c.from, nil); err != nil {
		n.log.Warn("cannot send the answer to a command", "to", c.from.String(), "err", err)
	}
	if n.config.Once && n.fromConsole(c) && (c.Type == message.Stop && err == nil || c.Type == message.Init && err != nil && n.run == nil) {
		select {
		case n.onceResult <- err:
		default:
		}
	}
}

// fromConsole reports whether a command is from one of the node's consoles.
func (n *Node) fromConsole(c command) bool {
	return len(n.consoles) == 0 || n.consoles[c.from.Address()]
}

// errnoOf returns the errno in err, or EIO if err contains no errno.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno == 0 {
		return syscall.EIO
	}
	return errno
}

// do executes a command and sets the figures in the answer. It returns ENOENT if the sender is not a
// console of the node, or if the node has no test of that console.
func (n *Node) do(c command, answer *message.Command) error {
	from := c.from.Address()
	if !n.fromConsole(c) {
		return fmt.Errorf("%s is not a console of this node: %w", from, syscall.ENOENT)
	}
	if c.Type == message.Init {
		return n.init(c.Test, from)
	}
	if n.run == nil || from != n.console {
		return fmt.Errorf("%s has not started a test on this node: %w", from, syscall.ENOENT)
	}
	n.expiry.Reset(n.config.Idle)
	switch c.Type {
	case message.Start:
		return n.start()
	case message.Status:
		f := n.run.report()
		answer.Figures = &f
		return nil
	case message.Stop:
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return n.stop(ctx)
	}
	return fmt.Errorf("%s is not a command of a console: %w", c.Type, syscall.ENOENT)
}

// init prepares a test, which starts with the command START. It returns EALREADY if the node has a test.
func (n *Node) init(test *message.Test, from transport.Address) error {
	if n.run != nil {
		return fmt.Errorf("a test of the console %s is in progress: %w", n.console, syscall.EALREADY)
	}
	if err := test.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareTime)
	defer cancel()
	t, err := newTestRun(ctx, n.config.Domain, *test)
	if err != nil {
		return err
	}
	n.run, n.console = t, from
	n.expiry = time.AfterFunc(n.config.Idle, func() { n.expire(t) })
	return nil
}

func (n *Node) start() error {
	if n.run.started() {
		return fmt.Errorf("the test has already started: %w", syscall.EALREADY)
	}
	n.run.start()
	return nil
}

// stop stops the node's test, if any. n.mu is held.
func (n *Node) stop(ctx context.Context) error {
	if n.run == nil {
		return nil
	}
	n.expiry.Stop()
	err := n.run.stop(ctx)
	n.run = nil
	return err
}

// expire stops test t because its console has sent no command for NodeConfig.Idle. It does nothing if
// the node no longer has this test.
func (n *Node) expire(t *testRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != t {
		return
	}
	n.log.Warn("ending a test, because its console sends no commands", "console", n.console.String(), "after", n.config.Idle.String())
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := n.stop(ctx); err != nil {
		n.log.Warn("cannot stop a test whose console sends no commands", "err", err)
	}
	select {
	case n.onceResult <- fmt.Errorf("the console sent no command for %s: %w", n.config.Idle, syscall.ETIMEDOUT):
	default:
	}
}
