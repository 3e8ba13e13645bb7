package nettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/nettest/figures"
	"github.com/lnetd/lnetd/internal/nettest/message"
	"github.com/lnetd/lnetd/transport"
)

// CommandTime is how long a console waits for the answers to a command, unless it is told
// otherwise.
const CommandTime = 10 * time.Second

// pollTime is how often a console asks how a test goes.
const pollTime = time.Second

// Group are the nodes of one role.
type Group struct {
	// Console is where the console talks to them from.
	Console string
	// Commands and Data are the end points of the nodes, in the same order.
	Commands, Data []string
	// Concurrency, Buffers and Delivery are those of message.Test.
	Concurrency, Buffers int
	Delivery             string
}

// ConsoleConfig says what a console does.
type ConsoleConfig struct {
	Domain           *transport.Domain
	Servers, Clients Group
	// Test is what the groups have in common; role, end points, and what Group has, are
	// filled in.
	Test message.Test
	// CommandTime is how long nodes have for an answer; 0: CommandTime.
	CommandTime time.Duration
	// Progress, if not nil, is called each second with the clients' figures so far.
	Progress func(elapsed time.Duration, clients *figures.Figures)
}

// Result is what came of a test.
type Result struct {
	Start   time.Time       `json:"time_start"`
	Finish  time.Time       `json:"time_finish"`
	Clients figures.Figures `json:"clients"`
	Servers figures.Figures `json:"servers"`
}

// Failures is how much has gone wrong.
func (r *Result) Failures() uint64 { return r.Clients.Failures() + r.Servers.Failures() }

// tests are what each node is told. EINVAL or ENODATA: it makes no sense.
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

// Check says what makes no sense, before anything is done. EINVAL, ENODATA.
func (c *ConsoleConfig) Check() error {
	_, _, err := c.tests()
	return err
}

// Run runs a test, until all clients have finished, time is up, or ctx ends; then it is
// stopped on all nodes. The result is what was counted up to then. Its error answers to
// ENETUNREACH if a node has not done what it was told, and to what that one said.
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

// console is a running console.
type console struct {
	config           *ConsoleConfig
	mailboxes        []*mailbox
	servers, clients []*remote

	mu      sync.Mutex         // guards the rest
	waiting map[uint64]*remote // whose answer is to come, by the command's sequence number
	last    uint64             // sequence number
}

// remote is a node as its console sees it.
type remote struct {
	name    string
	address string
	mailbox *mailbox
	test    message.Test
	// inited says that it may have a test that has to be stopped.
	inited bool
	// silent says that the last command was not answered.
	silent bool
	answer chan reply // has one at most per command
}

// reply is an answer, or why there is none.
type reply struct {
	sequence uint64
	command  *message.Command
	err      error
}

// remotes are the nodes of a group, reached from its mailbox.
func (k *console) remotes(ctx context.Context, g *Group, tests []message.Test) ([]*remote, error) {
	m, err := openMailbox(ctx, k.config.Domain, g.Console, len(tests), k.heard, k.left)
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

// heard hands an answer to who waits for it.
func (k *console) heard(b []byte, _ *transport.EndPoint) {
	c, err := message.ParseCommand(b)
	if err != nil || !c.Type.IsAnswer() {
		return // whoever waits is told so by time
	}
	k.settle(c.Sequence, reply{command: c})
}

// left hears that a command has left, or has not.
func (k *console) left(tag any, err error) {
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
		n.answer <- r // has room: what came for the last command was taken, or forgotten
	}
}

// tell sends a command to a node.
func (k *console) tell(ctx context.Context, n *remote, t message.Type) error {
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

// forget waits no longer for a node.
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

// step tells all nodes something and waits for their answers, for the time that commands
// have. ENETUNREACH: not all of them have done it.
func (k *console) step(ctx context.Context, nodes []*remote, t message.Type) ([]*message.Command, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.config.CommandTime,
		fmt.Errorf("no answer within %s: %w", k.config.CommandTime, syscall.ETIMEDOUT))
	defer cancel()
	return k.stepWithin(ctx, nodes, t)
}

// stepWithin is step until ctx ends.
func (k *console) stepWithin(ctx context.Context, nodes []*remote, t message.Type) ([]*message.Command, error) {
	told := make([]error, len(nodes))
	for i, n := range nodes {
		told[i] = k.tell(ctx, n, t)
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

// unreachable is why nodes have not done what they were told. It answers to ENETUNREACH.
type unreachable struct{ error }

func (e unreachable) Unwrap() []error { return []error{e.error, syscall.ENETUNREACH} }

// refusal is what a node has answered with.
type refusal struct {
	command message.Type
	errno   syscall.Errno
}

// refusals are what the errnos of an INIT mean.
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
				n.inited = false // what it may have is another console's
			}
			return nil, refusal{t, r.command.Errno}
		}
		return r.command, nil
	case <-ctx.Done():
		k.forget(n)
		return nil, context.Cause(ctx)
	}
}
