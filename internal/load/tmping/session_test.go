package tmping

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping/message"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// host opens a host in memory until the test ends.
func host(t *testing.T) *tmhost.Host {
	t.Helper()
	h, err := tmhost.Open(t.Context(), tmhost.Config{Type: "mem"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// session returns a session with default sides. wrong collects its errors.
func session(c Config) (s *Session, wrong *[]error) {
	wrong = new([]error)
	return &Session{
		Config: c, Client: Side{Portal: Portal, ID: "*"}, Server: Side{Portal: Portal, ID: "12"},
		OnError: func(err error) { *wrong = append(*wrong, err) },
	}, wrong
}

// Given both roles in one process, with each way of delivery, several clients and sizes, when all loops
// are done, then all checks have passed, each queue has moved the expected data, and the total is the sum
// of the clients.
//
// transport-tests Q (127)
// transport 10.1 steps
func TestBothRoles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *Config)
		bulk   uint64 // bytes of each bulk that the server sends
	}{
		{"defaults, three loops", func(c *Config) { c.Loops = 3 }, uint64(len(message.ActiveText)) + 2},
		{"8 clients, loops of 1 MiB", func(c *Config) { c.Clients, c.Loops, c.BulkSize = 8, 4, 1<<20 }, 1 << 20},
		{"asynchronous", func(c *Config) { c.Delivery, c.BulkSize = tmhost.Async, 4096 }, 4096},
		{"polling", func(c *Config) { c.Delivery, c.BulkSize = tmhost.Poll, 5000 }, 5000},
		{"long messages, few buffers", func(c *Config) { c.Buffers, c.Clients, c.MessageSize = 4, 3, 9000 }, 13},
		{"one message per buffer", func(c *Config) { c.MaxMessages, c.MinReceiveSize, c.Loops = 1, 4096, 5 }, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig()
			c.change(&config)
			if err := config.Check(); err != nil {
				t.Fatal(err)
			}
			s, wrong := session(config)
			h := host(t)
			reports, err := s.Both(t.Context(), h, h)
			if err != nil || len(*wrong) > 0 {
				t.Fatal(err, *wrong)
			}
			steps := uint64(config.Clients * config.Loops)
			server, last := &reports[0], &reports[len(reports)-1]
			if len(reports) != 2 && len(reports) != config.Clients+2 {
				t.Errorf("%d reports", len(reports))
			}
			want := [transport.QueueTypes]uint64{3 * steps, steps, 0, 0, steps, steps}
			for q, n := range want {
				if got := server.Queues[q]; got.Successes != n || got.Failures != 0 {
					t.Errorf("server, %s: %+v, want %d", got.Name, got, n)
				}
			}
			want = [transport.QueueTypes]uint64{steps, 3 * steps, steps, steps, 0, 0}
			for q, n := range want {
				if got := last.Queues[q]; got.Successes != n || got.Failures != 0 {
					t.Errorf("%s, %s: %+v, want %d", last.Name, got.Name, got, n)
				}
			}
			if got := last.Queues[transport.PassiveBulkRecv].Bytes; got != c.bulk*steps {
				t.Errorf("%d bytes were brought, want %d", got, c.bulk*steps)
			}
			if last.Errors+last.Retries+server.Errors != 0 {
				t.Errorf("%d errors, %d retries, %d errors of the server", last.Errors, last.Retries, server.Errors)
			}
		})
	}
}

// Given a server without a configured size, when clients announce bulk of any size, then it provides a
// buffer of that size, and the number of its buffers does not grow.
//
// transport 10.1 steps
func TestServerGrows(t *testing.T) {
	h := host(t)
	s, wrong := session(DefaultConfig())
	server, err := s.StartServer(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	s.Server.NID = h.NID.String()
	for _, size := range []int{64 << 10, 1 << 20, 5, 0, 40000} {
		s.BulkSize, s.Config.Clients = size, 4
		if _, err := s.Clients(t.Context(), h); err != nil || len(*wrong) > 0 {
			t.Fatalf("%d bytes: %v, %v", size, err, *wrong)
		}
	}
	server.awaitIdle(t.Context())
	if n := len(server.buffers); n != s.Buffers {
		t.Errorf("%d buffers, want %d", n, s.Buffers)
	}
	if err := server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Given no server, when a client has done its loop, then each step has ended with an error within its
// time limits.
//
// transport 10.1 steps
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, wrong := session(DefaultConfig())
		h := host(t)
		s.Server.NID = h.NID.String()
		begun := time.Now()
		reports, err := s.Clients(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 25*time.Second {
			t.Errorf("it took %s, not 5 s and twice 10 s", took)
		}
		if reports[0].Errors != 3 || len(*wrong) != 3 || !errors.Is((*wrong)[0], errNoAnswer) {
			t.Errorf("%d errors: %v", reports[0].Errors, *wrong)
		}
	})
}

// Given messages that cannot be sent, when a client has made all retries, then it has waited 1, 2 and 3
// seconds, and counted three retries and an error.
//
// transport 10.1 steps
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := session(DefaultConfig())
		h := host(t)
		s.Server.NID = h.NID.String()
		server, err := s.Server.address(s.Server.NID, 0)
		if err != nil {
			t.Fatal(err)
		}
		address, err := s.Client.address(h.NID.String(), 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := startClient(t.Context(), h.Domain, "client", address, server, s.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		c.send.Callbacks = nil // Add refuses a buffer without callbacks
		begun := time.Now()
		if err := c.ping(t.Context()); !errors.Is(err, errNotSent) {
			t.Error(err)
		}
		if took := time.Since(begun); took != 6*time.Second || c.retries != 3 {
			t.Errorf("%d retries in %s", c.retries, took)
		}
	})
}

// Given a stranger that sends malformed messages to a server, when a client sends requests afterwards,
// then they are served, and the malformed messages were counted.
//
// transport 10.1 protocol
func TestNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, wrong := session(DefaultConfig())
		h := host(t)
		server, err := s.StartServer(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		nonsense := []string{
			"x", "m", "r", "s00000048\x0000000000\x00", "r00000048\x0099999999\x00" + strings.Repeat("d", 48),
			"r00000048\x0000000000\x00" + strings.Repeat("d", 48), "s00000048\x0000000000\x00" + strings.Repeat("\xff", 48),
		}
		throw(t, h, server.Address(), nonsense)
		synctest.Wait()
		if got := server.Report().Errors; got != uint64(len(nonsense)) {
			t.Errorf("%d errors, want %d: %v", got, len(nonsense), *wrong)
		}
		if got := errors.Join(*wrong...); !strings.Contains(got.Error(), "is for 99999999 bytes") {
			t.Error(got)
		}
		s.Server.NID = h.NID.String()
		reports, err := s.Clients(t.Context(), h)
		if err != nil || reports[0].Errors > 0 {
			t.Error(err, *wrong)
		}
	})
}

// throw sends texts to an address from a separate transfer machine.
func throw(t *testing.T, h *tmhost.Host, to transport.Address, texts []string) {
	t.Helper()
	stranger, err := tmhost.Start(t.Context(), h.Domain, h.NID.String()+":12345:39:*", tmhost.Async, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := stranger.TM.EndPointAt(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		b, err := h.Domain.Buffer(t.Context(), 4096)
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		b.Callbacks = &transport.Callbacks{transport.MsgSend: func(e *transport.BufferEvent) { sent <- e.Err }}
		b.Queue, b.EndPoint, b.Length = transport.MsgSend, p, b.CopyIn(0, []byte(text))
		if err := stranger.TM.Add(b); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if err := h.Domain.Free(b); err != nil {
			t.Fatal(err)
		}
	}
	p.Put()
	if err := stranger.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Given a server, when lines come on its standard input, then they are executed. quit and the end of the
// input end it.
//
// transport 10.1 input
func TestObey(t *testing.T) {
	s, _ := session(DefaultConfig())
	h := host(t)
	server, err := s.StartServer(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s.Server.NID = h.NID.String()
	if _, err := s.Clients(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	var shown []uint64
	var unknown []string
	if r := server.Report(); r.Queues[transport.MsgRecv].Adds == 0 || r.Queues[transport.PassiveBulkRecv].Adds != 0 {
		t.Errorf("added: %+v", r.Queues)
	}
	obey := func(in string) {
		server.ServeCommands(strings.NewReader(in),
			func(r Report) { shown = append(shown, r.Queues[transport.MsgRecv].Successes) },
			func(line string) { unknown = append(unknown, line) })
	}
	obey("\nreset_stats\n\nhelp\nquit\n\n")
	obey("")
	if r := server.Report(); r.Queues[transport.MsgRecv].Adds == 0 {
		t.Error("no receive buffer was added after reset_stats")
	}
	if len(shown) != 3 || shown[0] != 3 || shown[1] != 3 || shown[2] != 0 || len(unknown) != 1 || unknown[0] != "help" {
		t.Errorf("shown %v, unknown %q", shown, unknown)
	}
}

// Valid sizes of receive buffers are used, and invalid ones are replaced by defaults.
func TestReceiveBuffers(t *testing.T) {
	l := transport.Limits{DescriptorSize: 48}
	for _, c := range []struct {
		buffers, receive, minSize, messages int
		wantReceive, wantSize, wantMessages int
	}{
		{20, 0, 0, 0, 2, 100, 327},
		{40, 0, 0, 0, 5, 100, 327},
		{20, 1, 0, 0, 2, 100, 327},
		{20, 10, 0, 0, 10, 100, 327},
		{20, 11, 0, 0, 2, 100, 327},
		{20, 4, 4096, 0, 4, 4096, 8},
		{20, 4, 0, 8, 4, 4096, 8},
		{20, 4, 4096, 1, 4, 4096, 1},
		{20, 4, 99, 1, 4, 100, 327},
		{20, 4, 32769, 1, 4, 100, 327},
		{20, 4, 0, 1000, 4, 100, 327},
	} {
		config := DefaultConfig()
		config.Buffers, config.ReceiveBuffers, config.MinReceiveSize, config.MaxMessages = c.buffers, c.receive, c.minSize, c.messages
		n, size, messages := config.receive(l)
		if n != c.wantReceive || size != c.wantSize || messages != c.wantMessages {
			t.Errorf("%+v: %d, %d, %d", c, n, size, messages)
		}
	}
}

// late is a Core that behaves like lnetd: operations start some time after they were submitted, in order.
type late struct{ transport.Core }

func (c late) Open(ctx context.Context) (transport.CoreDomain, error) {
	d, err := c.Core.Open(ctx)
	return lateDomain{d}, err
}

type lateDomain struct{ transport.CoreDomain }

func (d lateDomain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	tm, err := d.CoreDomain.StartTM(ctx, a, completions)
	t := &lateTM{CoreTM: tm, ops: make(chan transport.Op, 1024), stopped: make(chan struct{})}
	go t.run()
	return t, err
}

type lateTM struct {
	transport.CoreTM
	ops     chan transport.Op
	stopped chan struct{}
	once    sync.Once
}

func (t *lateTM) run() {
	for {
		select {
		case op := <-t.ops:
			time.Sleep(time.Second)
			_, _ = t.CoreTM.Submit([]transport.Op{op})
		case <-t.stopped:
			return
		}
	}
}

func (t *lateTM) Submit(ops []transport.Op) (int, error) {
	for _, op := range ops {
		t.ops <- op
	}
	return len(ops), nil
}

func (t *lateTM) Stop() error {
	err := t.CoreTM.Stop()
	if err == nil {
		t.once.Do(func() { close(t.stopped) })
	}
	return err
}

// Given an lnetd that starts a server's operations late, when clients come at once, then all receive
// their answers, and the counters match the clients' requests.
func TestLateBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := mem.New(mem.Config{})
		open := func(c transport.Core, events int) *tmhost.Host {
			d, err := transport.NewDomain(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			return &tmhost.Host{Domain: d, NID: lnet.LoopbackNID, Events: events}
		}
		s, wrong := session(DefaultConfig())
		host := network.Host()
		server, clients := open(late{host}, 1000), open(host, 0)
		reports, err := s.Both(t.Context(), server, clients)
		if err != nil || len(*wrong) > 0 {
			t.Fatalf("%v, %v", err, *wrong)
		}
		for _, q := range reports[0].Queues {
			if q.Cancels > 0 || q.Failures > 0 {
				t.Errorf("%+v", q)
			}
		}
	})
}
