package nettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// CommandTime is the default of ConsoleConfig.CommandTime: how long a console waits for the answers to a
// command.
const CommandTime = 10 * time.Second

// pollTime is the interval at which a console polls the progress of a test.
const pollTime = time.Second

// Group describes the nodes of one role.
type Group struct {
	// Console is the address from which the console communicates with them.
	Console string
	// Commands and Data are the end points of the nodes, in the same order.
	Commands, Data []string
	// Concurrency, Buffers and Delivery are the fields of message.Test.
	Concurrency, Buffers int
	Delivery             string
}

// ConsoleConfig defines what a console does.
type ConsoleConfig struct {
	Domain           *transport.Domain
	Servers, Clients Group
	// Test has the parameters common to both groups. The role, the end points, and the fields in Group
	// are filled in.
	Test message.Test
	// CommandTime is how long nodes may take to answer. 0 means CommandTime.
	CommandTime time.Duration
	// Progress, if not nil, is called each second with the clients' figures so far.
	Progress func(elapsed time.Duration, clients *figures.Figures)
}

// Result is the result of a test.
type Result struct {
	Start   time.Time       `json:"time_start"`
	Finish  time.Time       `json:"time_finish"`
	Clients figures.Figures `json:"clients"`
	Servers figures.Figures `json:"servers"`
}

// Failures returns the number of failures.
func (r *Result) Failures() uint64 { return r.Clients.Failures() + r.Servers.Failures() }

// tests returns the test for each node. It returns EINVAL or ENODATA if the configuration is invalid.
func (c *ConsoleConfig) tests() (servers, clients []message.Test, err error) {
	if servers, err = c.testsOf("servers", message.Server, &c.Servers, &c.Clients); err != nil {
		return nil, nil, err
	}
	clients, err = c.testsOf("clients", message.Client, &c.Clients, &c.Servers)
	return servers, clients, err
}

func (c *ConsoleConfig) testsOf(name string, role message.Role, g, peers *Group) (tests []message.Test, err error) {
	if len(g.Commands) == 0 || len(g.Commands) != len(g.Data) {
		return nil, fmt.Errorf("%s: %d command end points, %d data end points: there must be as many of both, and some: %w",
			name, len(g.Commands), len(g.Data), syscall.EINVAL)
	}
	for k, command := range g.Commands {
		for _, s := range []string{command, g.Data[k]} {
			if p, err := transport.ParseAddress(s); err != nil || p.TMID == transport.Dynamic {
				return nil, fmt.Errorf("%s: %q is no end point: %w", name, s, syscall.EINVAL)
			}
		}
		t := c.Test
		t.Role, t.Data, t.Peers = role, g.Data[k], peers.Data
		t.Concurrency, t.Buffers, t.Delivery = g.Concurrency, g.Buffers, g.Delivery
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// Check validates the configuration. It returns EINVAL or ENODATA if it is invalid.
func (c *ConsoleConfig) Check() error {
	_, _, err := c.tests()
	return err
}

// Run runs a test until all clients have finished, its time is over, or ctx is done. Then it stops the
// test on all nodes. The result has everything counted so far. If a node has not carried out a command,
// the error matches ENETUNREACH and the node's own errno.
func Run(ctx context.Context, c ConsoleConfig) (r Result, err error) {
	servers, clients, err := c.tests()
	if err != nil {
		return r, err
	}
	if c.CommandTime == 0 {
		c.CommandTime = CommandTime
	}
	k := &console{config: &c, waiting: map[uint64]*remote{}, last: uint64(time.Now().UnixNano())}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		err = errors.Join(err, k.close(ctx))
	}()
	if k.servers, err = k.remotes(ctx, &c.Servers, servers); err != nil {
		return r, err
	}
	if k.clients, err = k.remotes(ctx, &c.Clients, clients); err != nil {
		return r, err
	}
	err = k.run(ctx, &r)
	return r, err
}

// console is the state of a running test.
type console struct {
	config           *ConsoleConfig
	mailboxes        []*mailbox
	servers, clients []*remote

	mu      sync.Mutex         // guards the rest
	waiting map[uint64]*remote // remotes that have not answered, by sequence number of the command
	last    uint64             // last sequence number
}

// remote is a node as seen by its console.
type remote struct {
	name    string
	address string
	mailbox *mailbox
	test    message.Test
	// inited is set if the node may have a test that must be stopped.
	inited bool
	// silent is set if the last command was not answered.
	silent bool
	answer chan reply // receives at most one reply per command
}

// reply is an answer, or the error if there was no answer.
type reply struct {
	sequence uint64
	command  *message.Command
	err      error
}

// remotes returns the nodes of a group, reached from the group's mailbox.
func (k *console) remotes(ctx context.Context, g *Group, tests []message.Test) ([]*remote, error) {
	m, err := openMailbox(ctx, k.config.Domain, g.Console, len(tests), k.heard, k.commandSent)
	if err != nil {
		return nil, err
	}
	k.mailboxes = append(k.mailboxes, m)
	var all []*remote
	for n, t := range tests {
		all = append(all, &remote{
			name: fmt.Sprintf("%s %s", t.Role, g.Commands[n]), address: g.Commands[n], mailbox: m, test: t,
			answer: make(chan reply, 1),
		})
	}
	return all, nil
}

func (k *console) close(ctx context.Context) error {
	var errs []error
	for _, m := range k.mailboxes {
		errs = append(errs, m.close(ctx))
	}
	return errors.Join(errs...)
}

// heard passes an answer to the goroutine that waits for it.
func (k *console) heard(b []byte, _ *transport.EndPoint) {
	c, err := message.ParseCommand(b)
	if err != nil || !c.Type.IsAnswer() {
		return // ignored: the command times out
	}
	k.settle(c.Sequence, reply{command: c})
}

// commandSent is called when a command has been sent or has failed.
func (k *console) commandSent(tag any, err error) {
	if sequence, ok := tag.(uint64); ok && err != nil {
		k.settle(sequence, reply{err: err})
	}
}

func (k *console) settle(sequence uint64, r reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.waiting[sequence]; n != nil {
		delete(k.waiting, sequence)
		r.sequence = sequence
		n.answer <- r // has room: the reply to the last command was received or discarded
	}
}

// send sends a command to a node.
func (k *console) send(ctx context.Context, n *remote, t message.Type) error {
	to, err := n.mailbox.loop.TM.EndPoint(n.address)
	if err != nil {
		return err
	}
	defer to.Put()
	n.silent = true
	c := &message.Command{Type: t}
	if t == message.Init {
		c.Test, n.inited = &n.test, true
	}
	k.mu.Lock()
	k.last++
	c.Sequence = k.last
	k.waiting[c.Sequence] = n
	k.mu.Unlock()
	if err := n.mailbox.send(ctx, c, to, c.Sequence); err != nil {
		k.forget(n)
		return err
	}
	return nil
}

// forget stops waiting for a node.
func (k *console) forget(n *remote) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for sequence, o := range k.waiting {
		if o == n {
			delete(k.waiting, sequence)
		}
	}
	select {
	case <-n.answer:
	default:
	}
}

// step sends a command to all nodes and waits up to CommandTime for their answers. It returns ENETUNREACH
// if not all nodes have carried it out.
func (k *console) step(ctx context.Context, nodes []*remote, t message.Type) ([]*message.Command, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.config.CommandTime,
		fmt.Errorf("no answer within %s: %w", k.config.CommandTime, syscall.ETIMEDOUT))
	defer cancel()
	return k.stepWithin(ctx, nodes, t)
}

// stepWithin is step with ctx as the only time limit.
func (k *console) stepWithin(ctx context.Context, nodes []*remote, t message.Type) ([]*message.Command, error) {
	told := make([]error, len(nodes))
	for i, n := range nodes {
		told[i] = k.send(ctx, n, t)
	}
	answers := make([]*message.Command, len(nodes))
	var errs []error
	for i, n := range nodes {
		err := told[i]
		if err == nil {
			answers[i], err = k.await(ctx, n, t)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", n.name, t, err))
		}
	}
	if errs != nil {
		return nil, unreachable{errors.Join(errs...)}
	}
	return answers, nil
}

// unreachable is the error for nodes that have not carried out a command. It matches ENETUNREACH.
type unreachable struct{ error }

func (e unreachable) Unwrap() []error { return []error{e.error, syscall.ENETUNREACH} }

// refusal is the error that a node has answered with.
type refusal struct {
	command message.Type
	errno   syscall.Errno
}

// refusals explains the errnos of an INIT.
var refusals = map[syscall.Errno]string{
	syscall.EALREADY:     "it has another test",
	syscall.ENOENT:       "it takes no commands from here",
	syscall.ECONNREFUSED: "it cannot be at that data end point",
	syscall.ENOMEM:       "the test takes too much memory",
}

func (r refusal) Error() string {
	text := r.errno.Error()
	if meaning := refusals[r.errno]; meaning != "" && r.command == message.Init {
		text = meaning
	}
	return "refused: " + text + "; its log says more"
}

func (r refusal) Unwrap() error { return r.errno }

// await waits for the answer of one node.
func (k *console) await(ctx context.Context, n *remote, t message.Type) (*message.Command, error) {
	select {
	case r := <-n.answer:
		n.silent = r.err != nil
		switch {
		case r.err != nil:
			return nil, r.err
		case r.command.Type != t.Answer():
			return nil, fmt.Errorf("its answer is %s: %w", r.command.Type, syscall.EPROTO)
		case r.command.Errno != 0:
			if t == message.Init {
				n.inited = false // if it has a test, it is another console's
			}
			return nil, refusal{t, r.command.Errno}
		}
		return r.command, nil
	case <-ctx.Done():
		k.forget(n)
		return nil, context.Cause(ctx)
	}
}
