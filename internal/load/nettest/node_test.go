package nettest

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/transport"
)

// bare is a console whose commands the test chooses.
type bare struct {
	t       *testing.T
	mailbox *mailbox
	heard   chan *message.Command
	last    uint64
}

func newBare(t *testing.T, h *tmhost.Host, address string) *bare {
	t.Helper()
	b := &bare{t: t, heard: make(chan *message.Command, 16)}
	var err error
	b.mailbox, err = openMailbox(t.Context(), h.Domain, address, 4, func(text []byte, _ *transport.EndPoint) {
		if c, err := message.ParseCommand(text); err == nil {
			b.heard <- c
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.mailbox.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bare) send(n *Node, c message.Command) {
	b.t.Helper()
	to, err := b.mailbox.loop.TM.EndPointAt(n.Address())
	if err != nil {
		b.t.Fatal(err)
	}
	defer to.Put()
	if err := b.mailbox.send(b.t.Context(), &c, to, nil); err != nil {
		b.t.Fatal(err)
	}
}

// ask sends a command and returns the error in the answer.
func (b *bare) ask(n *Node, t message.Type, test *message.Test) error {
	b.t.Helper()
	b.last++
	b.send(n, message.Command{Type: t, Sequence: b.last, Test: test})
	c := <-b.heard
	if c.Type != t.Answer() || c.Sequence != b.last {
		b.t.Fatalf("%s %d was answered by %s %d", t, b.last, c.Type, c.Sequence)
	}
	if c.Errno == 0 {
		return nil
	}
	return c.Errno
}

func newNode(t *testing.T, c NodeConfig) *Node {
	t.Helper()
	n, err := StartNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// serverTest returns a test for a server.
func serverTest() *message.Test {
	test := pingTest()
	test.Role, test.Data, test.Peers = message.Server, "0@lo:12345:42:50", []string{"0@lo:12345:42:51"}
	test.Concurrency, test.Delivery = 1, "async"
	return &test
}

// Given a node, when its console sends an invalid request, then the answer has the reason, and the
// running test continues.
//
// transport-tests Q (133)
// transport 10.3 commands
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t)
		n := newNode(t, NodeConfig{Domain: h.Domain, Address: "0@lo:12345:42:1", Consoles: []string{"0@lo:12345:42:2", "0@lo:12345:42:4"}})
		console, stranger := newBare(t, h, "0@lo:12345:42:2"), newBare(t, h, "0@lo:12345:42:3")
		other := newBare(t, h, "0@lo:12345:42:4")
		change := func(f func(test *message.Test)) *message.Test {
			test := serverTest()
			f(test)
			return test
		}
		for _, s := range []struct {
			name string
			who  *bare
			do   message.Type
			test *message.Test
			want error
		}{
			{"a stranger", stranger, message.Init, serverTest(), syscall.ENOENT},
			{"no test yet", console, message.Start, nil, syscall.ENOENT},
			{"no test to ask about", console, message.Status, nil, syscall.ENOENT},
			{"unknown type of test", console, message.Init, change(func(c *message.Test) { c.Kind = "pong" }), syscall.ENODATA},
			{"unknown role", console, message.Init, change(func(c *message.Test) { c.Role = "" }), syscall.EINVAL},
			{"bad value", console, message.Init, change(func(c *message.Test) { c.Concurrency = -1 }), syscall.EINVAL},
			{"too large", console, message.Init, change(func(c *message.Test) { c.Size = 2 << 20 }), syscall.EINVAL},
			{"too much", console, message.Init, change(func(c *message.Test) { c.Size, c.Concurrency = 1<<20, 4096 }), syscall.ENOMEM},
			{"too many", console, message.Init, change(func(c *message.Test) { c.Size, c.Concurrency, c.Peers = 32, 4096, make([]string, 100) }), syscall.ENOMEM},
			{"unknown delivery", console, message.Init, change(func(c *message.Test) { c.Delivery = "" }), syscall.EINVAL},
			{"data end point in use", console, message.Init, change(func(c *message.Test) { c.Data = "0@lo:12345:42:1" }), syscall.ECONNREFUSED},
			{"data end point elsewhere", console, message.Init, change(func(c *message.Test) { c.Data = "1.2.3.4@tcp:12345:42:9" }), syscall.ECONNREFUSED},
			{"peer that is none", console, message.Init, change(func(c *message.Test) { c.Role, c.Peers = message.Client, []string{"x"} }), syscall.EINVAL},
			{"all is well", console, message.Init, serverTest(), nil},
			{"twice", console, message.Init, serverTest(), syscall.EALREADY},
			{"a stranger stops it", stranger, message.Stop, nil, syscall.ENOENT},
			{"another console stops it", other, message.Stop, nil, syscall.ENOENT},
			{"no such command", console, 99, nil, syscall.ENOENT},
			{"it starts", console, message.Start, nil, nil},
			{"twice", console, message.Start, nil, syscall.EALREADY},
			{"how it goes", console, message.Status, nil, nil},
			{"it stops", console, message.Stop, nil, nil},
			{"another one", console, message.Init, serverTest(), nil},
		} {
			if err := s.who.ask(n, s.do, s.test); !errors.Is(err, s.want) {
				t.Errorf("%s: %v, want %v", s.name, err, s.want)
			}
		}
	})
}

// Given a node with Once, when a stranger requests a test, then the node continues. When the console
// requests a test of an unknown kind, the node ends with ENODATA. When its test is stopped, it ends
// without an error.
//
// transport-tests Q (133)
// transport 10.3 commands
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t)
		console := newBare(t, h, "0@lo:12345:42:2")
		n := newNode(t, NodeConfig{Domain: h.Domain, Address: "0@lo:12345:42:1", Consoles: []string{"0@lo:12345:42:2"}, Once: true})
		if err := newBare(t, h, "0@lo:12345:42:3").ask(n, message.Init, serverTest()); !errors.Is(err, syscall.ENOENT) {
			t.Error(err)
		}
		bad := serverTest()
		bad.Kind = "pong"
		if err := console.ask(n, message.Init, bad); !errors.Is(err, syscall.ENODATA) {
			t.Error(err)
		}
		if err := <-n.Done(); !errors.Is(err, syscall.ENODATA) {
			t.Error(err)
		}
		for _, do := range []message.Type{message.Init, message.Start, message.Stop} {
			if err := console.ask(n, do, serverTest()); err != nil {
				t.Error(do, err)
			}
		}
		if err := <-n.Done(); err != nil {
			t.Error(err)
		}
	})
}

// Given a node whose console has gone, when its idle time has passed, then the node accepts the next
// test.
func TestSilentConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t)
		n := newNode(t, NodeConfig{Domain: h.Domain, Address: "0@lo:12345:42:1"})
		gone, next := newBare(t, h, "0@lo:12345:42:2"), newBare(t, h, "0@lo:12345:42:3")
		if err := gone.ask(n, message.Init, serverTest()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(IdleTime - time.Second)
		if err := gone.ask(n, message.Start, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(IdleTime - time.Second)
		if err := next.ask(n, message.Init, serverTest()); !errors.Is(err, syscall.EALREADY) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := next.ask(n, message.Init, serverTest()); err != nil {
			t.Error(err)
		}
	})
}

// Given a console and nodes, one of which is missing, when a test is run, then it ends within the time
// limit for commands, or soon when it is interrupted. The error names the missing node, and the other
// nodes are free again.
//
// transport-tests Q (134)
// transport 10.3 commands
func TestNodeIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := local(t, 2, 1, pingTest())
		whole := *c
		missing := c.Servers.Commands[0][:len("0@lo:12345:42:")] + "77"
		c.Servers.Commands = []string{c.Servers.Commands[0], missing}
		begun := time.Now()
		_, err := Run(t.Context(), *c)
		if !errors.Is(err, syscall.ENETUNREACH) || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), c.Servers.Commands[0]) {
			t.Error(err)
		}
		// INIT goes to all, and STOP to those that may have received it. The missing STOP is not
		// reported.
		if took := time.Since(begun); took > CommandTime+finalStopTime || strings.Contains(err.Error(), "STOP") {
			t.Errorf("it took %s: %v", took, err)
		}
		interrupted, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if _, err := Run(interrupted, *c); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Second+finalStopTime {
			t.Errorf("it took %s to interrupt it", took)
		}
		if r, err := Run(t.Context(), whole); err != nil || r.Failures() > 0 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

// Given a running test, when the console is interrupted, then it stops the nodes and collects their
// figures.
//
// transport 10.3 commands
func TestInterrupted(t *testing.T) {
	test := pingTest()
	test.Count, test.Time = 0, time.Hour
	c := local(t, 1, 1, test)
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(time.Duration, *figures.Figures) { cancel() }
	r, err := Run(ctx, *c)
	if err != nil || r.Clients.Sent.Total == 0 || r.Servers.Received.Total == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	c.Test.Time, c.Test.Count, c.Progress = 0, 10, nil
	if r, err := Run(t.Context(), *c); err != nil || r.Failures() > 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// Given messages that no console sends, when a node has received them, then it executes the next command
// normally.
func TestNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host(t)
		n := newNode(t, NodeConfig{Domain: h.Domain, Address: "0@lo:12345:42:1"})
		console := newBare(t, h, "0@lo:12345:42:2")
		from, err := n.mailbox.loop.TM.EndPoint("0@lo:12345:42:2")
		if err != nil {
			t.Fatal(err)
		}
		whole, err := (&message.Command{Type: message.Init, Test: serverTest()}).Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range whole {
			n.handleMessage(whole[:k], from)
		}
		n.handleMessage([]byte(strings.Repeat("x", message.CommandSize)), from)
		for _, answer := range []message.Type{0, message.InitDone, message.StatusData, 100} {
			console.send(n, message.Command{Type: answer}) // not answered
		}
		from.Put()
		synctest.Wait()
		if len(console.heard) > 0 {
			t.Errorf("%+v", <-console.heard)
		}
		if err := console.ask(n, message.Init, serverTest()); err != nil {
			t.Error(err)
		}
	})
}
