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

// CommandTime is the default of ConsoleConfig.CommandTime.
const CommandTime = 10 * time.Second

// pollTime is the interval at which a console polls the progress of a test.
const pollTime = time.Second

// Group describes the nodes of one role.
type Group struct {
	// Console is the address of the console's transfer machine for these nodes.
	Console string
	// Commands and Data are the addresses at which the nodes receive commands and test data, in the same
	// order.
	Commands, Data []string
	// Concurrency, Buffers and Delivery are values for the fields of message.Test with the same names.
	Concurrency, Buffers int
	Delivery             string
}

// ConsoleConfig defines the test that Run runs, and its nodes.
type ConsoleConfig struct {
	Domain           *transport.Domain
	Servers, Clients Group
	// Test has the parameters that are the same for both groups. Run sets its role, its addresses, and the
	// fields that are in Group.
	Test message.Test
	// CommandTime is how long the console waits for the nodes' answers to a command. 0 means the constant
	// CommandTime.
	CommandTime time.Duration
	// Progress is called about once a second with the sum of the clients' figures so far. It may be nil.
	Progress func(elapsed time.Duration, clients *figures.Figures)
}

// Result is the result of a test.
type Result struct {
	Start   time.Time       `json:"time_start"`
	Finish  time.Time       `json:"time_finish"`
	Clients figures.Figures `json:"clients"`
	Servers figures.Figures `json:"servers"`
}

// Failures returns the number of failed and bad attempts of all nodes.
func (r *Result) Failures() uint64 { return r.Clients.Failures() + r.Servers.Failures() }

// tests returns the test for each server and each client. It returns EINVAL or ENODATA if the
// configuration is invalid.
func (c *ConsoleConfig) tests() (servers, clients []message.Test, err error) {
	if servers, err = c.testsOf("servers", message.Server, &c.Servers, &c.Clients); err != nil {
		return nil, nil, err
	}
	clients, err = c.testsOf("clients", message.Client, &c.Clients, &c.Servers)
	return servers, clients, err
}

func (c *ConsoleConfig) testsOf(name string, role message.Role, g, peers *Group) (tests []message.Test, err error) {
	if len(g.Commands) == 0 || len(g.Commands) != len(g.Data) {
		return nil, fmt.Errorf("%s: %d command end points and %d data end points are given, but each node needs one of both: %w",
			name, len(g.Commands), len(g.Data), syscall.EINVAL)
	}
	for k, command := range g.Commands {
		for _, s := range []string{command, g.Data[k]} {
			if p, err := transport.ParseAddress(s); err != nil || p.TMID == transport.Dynamic {
				return nil, fmt.Errorf("%s: %q is not the address of an end point: %w", name, s, syscall.EINVAL)
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

// Check validates the configuration. It returns EINVAL or ENODATA if the configuration is invalid.
func (c *ConsoleConfig) Check() error {
	_, _, err := c.tests()
	return err
}

// Run runs a test until all clients have finished, the time of the test is over, or ctx is done. Then it
// stops the test on all nodes. The result has the figures so far, even if there is an error. If a node
// did not answer a command or refused it, the error matches ENETUNREACH and also the cause: for example
// ETIMEDOUT if there was no answer, or the errno in the answer.
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

// console is the console of a running test.
type console struct {
	config           *ConsoleConfig
	mailboxes        []*mailbox
	servers, clients []*remote

	mu      sync.Mutex         // guards the rest
	waiting map[uint64]*remote // nodes that have not answered yet, by sequence number of their command
	last    uint64             // sequence number of the last command
}

// remote is what the console knows about one node.
type remote struct {
	name    string
	address string
	mailbox *mailbox
	test    message.Test
	// mayHaveTest is set when INIT was sent, and cleared if the node refuses it. Such a node must be
	// stopped at the end.
	mayHaveTest bool
	// silent is set while the last command is not answered.
	silent bool
	answer chan reply // receives at most one reply per command
}

// reply is the answer to a command, or the error if the command could not be sent.
type reply struct {
	sequence uint64
	command  *message.Command
	err      error
}

// remotes opens the console's mailbox for a group, and returns the nodes of the group.
func (k *console) remotes(ctx context.Context, g *Group, tests []message.Test) ([]*remote, error) {
	m, err := openMailbox(ctx, k.config.Domain, g.Console, len(tests), k.handleMessage, k.commandSent)
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

// handleMessage passes an answer from a node to the goroutine that waits for it. It ignores other
// messages.
func (k *console) handleMessage(b []byte, _ *transport.EndPoint) {
	c, err := message.ParseCommand(b)
	if err != nil || !c.Type.IsAnswer() {
		return // the command will time out
	}
	k.deliverReply(c.Sequence, reply{command: c})
}

// commandSent is called when a command was sent or has failed. An error ends the wait for its answer.
func (k *console) commandSent(tag any, err error) {
	if sequence, ok := tag.(uint64); ok && err != nil {
		k.deliverReply(sequence, reply{err: err})
	}
}

func (k *console) deliverReply(sequence uint64, r reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.waiting[sequence]; n != nil {
		delete(k.waiting, sequence)
		r.sequence = sequence
		n.answer <- r // does not block: the reply to the last command was received or discarded
	}
}

// send sends a command of type t to a node, and makes the node one that must answer.
func (k *console) send(ctx context.Context, n *remote, t message.Type) error {
	to, err := n.mailbox.loop.TM.EndPoint(n.address)
	if err != nil {
		return err
	}
	defer to.Put()
	n.silent = true
	c := &message.Command{Type: t}
	if t == message.Init {
		c.Test, n.mayHaveTest = &n.test, true
	}
	k.mu.Lock()
	k.last++
	c.Sequence = k.last
	k.waiting[c.Sequence] = n
	k.mu.Unlock()
	if err := n.mailbox.send(ctx, c, to, c.Sequence); err != nil {
		k.stopWaiting(n)
		return err
	}
	return nil
}

// stopWaiting discards the answer of a node that has come or may still come.
func (k *console) stopWaiting(n *remote) {
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

// step sends a command to the nodes and waits up to CommandTime for their answers, which it returns in
// the order of nodes. If a node did not answer the command or refused it, step returns unreachable.
func (k *console) step(ctx context.Context, nodes []*remote, t message.Type) ([]*message.Command, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.config.CommandTime,
		fmt.Errorf("no answer within %s: %w", k.config.CommandTime, syscall.ETIMEDOUT))
	defer cancel()
	return k.stepWithin(ctx, nodes, t)
}

// stepWithin does the same as step, but its only time limit is ctx.
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

// unreachable is the error for nodes that did not answer a command or refused it. It matches ENETUNREACH
// and the causes.
type unreachable struct{ error }

func (e unreachable) Unwrap() []error { return []error{e.error, syscall.ENETUNREACH} }

// refusal is the error for a node that has answered a command with an errno.
type refusal struct {
	command message.Type
	errno   syscall.Errno
}

// refusals explains the errnos of answers to INIT.
var refusals = map[syscall.Errno]string{
	syscall.EALREADY:     "another test runs on the node",
	syscall.ENOENT:       "the node accepts no commands from this console",
	syscall.ECONNREFUSED: "the node cannot open the data end point",
	syscall.ENOMEM:       "the test needs more memory than the node allows",
}

func (r refusal) Error() string {
	text := r.errno.Error()
	if meaning := refusals[r.errno]; meaning != "" && r.command == message.Init {
		text = meaning
	}
	return "refused: " + text + "; see the log of the node"
}

func (r refusal) Unwrap() error { return r.errno }

// await waits until a node has answered its command of type t, or ctx is done. It returns an error if
// the node has refused the command or the answer has the wrong type.
func (k *console) await(ctx context.Context, n *remote, t message.Type) (*message.Command, error) {
	select {
	case r := <-n.answer:
		n.silent = r.err != nil
		switch {
		case r.err != nil:
			return nil, r.err
		case r.command.Type != t.Answer():
			return nil, fmt.Errorf("the node answered with %s instead: %w", r.command.Type, syscall.EPROTO)
		case r.command.Errno != 0:
			if t == message.Init {
				n.mayHaveTest = false // if it has a test, then for another console
			}
			return nil, refusal{t, r.command.Errno}
		}
		return r.command, nil
	case <-ctx.Done():
		k.stopWaiting(n)
		return nil, context.Cause(ctx)
	}
}
