package socklnd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// usage is what the process uses of its host.
type usage struct {
	goroutines, descriptors, halfOpen, perSource, connections int
	memory                                                    uint64 // bytes of heap and stacks in use
}

// higher returns the maximum of each field.
func (u usage) higher(o usage) usage {
	return usage{
		max(u.goroutines, o.goroutines), max(u.descriptors, o.descriptors), max(u.halfOpen, o.halfOpen),
		max(u.perSource, o.perSource), max(u.connections, o.connections), max(u.memory, o.memory),
	}
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB, %d half-open (%d of one source), %d connections",
		u.goroutines, u.descriptors, float64(u.memory)/(1<<20), u.halfOpen, u.perSource, u.connections)
}

// usage measures the test process.
func (n *node) usage() usage {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		n.t.Fatal(err)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u := usage{
		goroutines: runtime.NumGoroutine(), descriptors: len(fds),
		memory: mem.HeapInuse + mem.StackInuse, connections: int(n.counter("connections")),
	}
	u.halfOpen, u.perSource = n.driver.halfOpen.Len()
	return u
}

// knowsFriends is the host's network. Some addresses appear to call from privileged ports; all
// others keep their real ports.
type knowsFriends struct {
	Network
	mu      sync.Mutex
	friends []netip.Addr
}

func (k *knowsFriends) befriend(p *puppet) *puppet {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.friends = append(k.friends, p.addr)
	return p
}

func (k *knowsFriends) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := k.Network.Listen(at, backlog)
	return friendlyListener{l, k}, err
}

type friendlyListener struct {
	Listener
	k *knowsFriends
}

func (l friendlyListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	if slices.Contains(l.k.friends, s.RemoteAddr().Addr()) {
		s = disguisedStream{s.(hostly)}
	}
	return s, nil
}

// visit connects as a well-behaved peer, sends, waits for the answer and closes. It returns the
// time that this took. If too many strangers arrive before the node reads its HELLO, the peer may
// be evicted too, and then it tries again.
func (k *knowsFriends) visit(n *node) time.Duration {
	p := k.befriend(newPuppet(n))
	begin := time.Now()
	w, err := p.tryToConnect(protocol.Control)
	for err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n.t.Fatal(err)
		}
		w, err = p.tryToConnect(protocol.Control)
	}
	w.put(100)
	w.receive() // the answer of the node
	d := time.Since(begin)
	_ = w.Close()
	return d
}

// TestFloods opens 10,000 connections from many addresses in another process. It checks what they
// use up on the victim, and that peers can still exchange messages and connect. The backlog is
// long, because the host's kernel drops callers of every kind from a short one, and they retry only
// after a second. AcceptTimeout is an hour, so that a peer never gets in because an attacker has
// timed out.
func TestFloods(t *testing.T) {
	for _, test := range []struct {
		name        string
		connections int
		accept      Accept
		attack      attack
		established int // the maximum
		root        bool
	}{
		{"silent", 10000, AcceptAll, attack{Says: "nothing", Sources: 40}, 0, false},
		{"silent, many sources", 3000, AcceptAll, attack{Says: "nothing", Sources: 500}, 0, false},
		{"garbage", 3000, AcceptAll, attack{Says: "garbage", Sources: 40}, 0, false},
		{"hello", 10000, AcceptAll, attack{Says: "hello", Sources: 8}, 8 * maxConnsPerSource, false},
		{"secure, unprivileged hello", 3000, AcceptSecure, attack{Says: "hello", Sources: 40}, 0, false},
		{"secure, silent", 10000, AcceptSecure, attack{Says: "nothing", Sources: 40, Privileged: true}, 0, true},
		{"secure, hello", 10000, AcceptSecure, attack{Says: "hello", Sources: 20, Privileged: true}, 20 * maxConnsPerSource, true},
	} {
		if testenv.Race && !test.root && test.attack.Says != "garbage" {
			continue // the cases with root run the same goroutines
		}
		t.Run(test.name, func(t *testing.T) {
			if test.root {
				testenv.NeedRoot(t)
			}
			friends := &knowsFriends{Network: HostNetwork()}
			n := start(t, func(c *Config) {
				c.Network, c.Accept, c.AcceptBacklog, c.AcceptTimeout = friends, test.accept, 4096, time.Hour
				c.Logger = nil
			})
			n.onArrival(func(a *arrival) error {
				n.put(a.from, 100)
				a.drop()
				return nil
			})
			bystander := friends.befriend(newPuppet(n)).connect(protocol.Control)
			normal := friends.visit(n)
			for range 20 {
				normal = max(normal, friends.visit(n))
			}
			before := n.usage()

			a := test.attack
			a.Target, a.NID, a.Connections = netip.AddrPortFrom(n.Address, testPort), n.NID().String(), test.connections
			begin := time.Now()
			x := a.begin(t)
			result := make(chan attackResult, 1)
			go func() { result <- x.opened() }()
			var seen attackResult
			var visits []time.Duration
			highest := before
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for done := false; !done; {
				select {
				case seen = <-result:
					done = true
				case <-tick.C:
				}
				bystander.put(10)
				bystander.receive()
				visits = append(visits, friends.visit(n))
				highest = highest.higher(n.usage())
			}
			for range 20 { // while all connections of the attack are still open
				visits = append(visits, friends.visit(n))
				highest = highest.higher(n.usage())
			}
			took := time.Since(begin)
			last := x.looks()
			slices.Sort(visits)
			median, worst := visits[len(visits)/2], visits[len(visits)-1]
			t.Logf("%d connections in %v: %d answered, %d ended", seen.Opened, took.Round(time.Millisecond), last.Answered, last.Ended)
			t.Logf("before:  %s", before)
			t.Logf("highest: %s", highest)
			t.Logf("a visit takes at most %v before; of %d visits during the attack the median is %v, the worst %v",
				normal, len(visits), median, worst)

			if seen.Opened < int64(test.connections*9/10) {
				t.Errorf("only %d connections were opened", seen.Opened)
			}
			const slack = 100
			if highest.halfOpen > 256 {
				t.Errorf("%d half-open connections, at most 256 may be", highest.halfOpen)
			}
			if highest.perSource > 8 {
				t.Errorf("%d half-open connections of one source, at most 8 may be", highest.perSource)
			}
			if got := highest.connections; got > test.established+slack {
				t.Errorf("%d established connections, at most %d may be", got, test.established)
			}
			// The goroutine of an evicted caller ends a moment later.
			if got, most := highest.goroutines-before.goroutines, test.established+2*256+slack; got > most {
				t.Errorf("%d more goroutines, at most %d may be", got, most)
			}
			if got, most := highest.descriptors-before.descriptors, test.established+2*256+slack; got > most {
				t.Errorf("%d more descriptors, at most %d may be", got, most)
			}
			if got, most := highest.memory-min(before.memory, highest.memory), uint64(32<<20+test.established*24<<10); got > most {
				t.Errorf("%d more bytes of memory, at most %d may be", got, most)
			}
			bystander.put(10)
			bystander.receive()

			x.end()
			n.awaitTable("end of the attack", func() bool { return n.Len() <= 1 })
			n.driver.awaitHalfOpen(t, 0)
		})
	}
}

// TestAPromiseCostsLittle checks that peers which announce a megabyte each and send nothing use no
// memory of the driver beyond that of their connections.
func TestAPromiseCostsLittle(t *testing.T) {
	const peers, timeout = 200, 2 * time.Second
	n := start(t, func(c *Config) { c.SockTimeout, c.Logger = timeout, nil })
	var calls sync.WaitGroup
	calls.Add(peers)
	target := make([]byte, 1<<20)
	n.onArrival(func(a *arrival) error {
		a.place(memory.Of(target))
		calls.Done()
		return nil
	})
	before := n.usage()
	var wires []*wire
	for range peers {
		w := newPuppet(n).connect(protocol.Control)
		w.send(w.message(nil, func(_ *protocol.Frame, h *lnet.Header) { h.PayloadLength = 1 << 20 }))
		wires = append(wires, w)
	}
	calls.Wait()
	after := n.usage()
	per := (int64(after.memory) - int64(before.memory)) / peers
	t.Logf("%d bytes for each of %d connections (both ends)", per, peers)
	if per > 32<<10 {
		t.Errorf("each promise costs %d bytes", per)
	}
	for _, w := range wires {
		w.ends()
	}
	for range peers {
		if a := await(t, n.arrived, "arrival"); a.err == nil {
			t.Fatal("a promise has been kept")
		}
	}
	if got := n.counter("receive_timeouts_total"); got != peers {
		t.Errorf("%d receive timeouts, want %d", got, peers)
	}
}

// TestAPeerThatRequestsAndDoesNotRead checks that the connection ends before unread
// acknowledgements fill the memory.
//
// socklnd 10.2 (3)
func TestAPeerThatRequestsAndDoesNotRead(t *testing.T) {
	n := start(t, func(c *Config) { smallBuffers(c); c.Logger = nil })
	n.onArrival(func(a *arrival) error { a.drop(); return nil })
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	// The test does not shrink the peer's receive buffer. With a full one, TCP also drops the
	// acknowledgements for our side, and backs off for tens of seconds.
	before := n.usage()
	sent, cookie := 0, uint64(2)
	for {
		var stream []byte
		for range 500 {
			stream = append(stream, w.message(nil, func(f *protocol.Frame, _ *lnet.Header) { f.Request = cookie })...)
			cookie += 10 // the cookies cannot be merged
		}
		k, err := w.Write(stream)
		sent += k
		if err != nil {
			break
		}
		if sent > 200<<20 {
			t.Fatal("the victim takes no end of requests")
		}
	}
	await(t, n.down, "PeerDown")
	after := n.usage()
	t.Logf("cut off after %d requests, %.1f MiB; %s before, %s after", sent/protocol.V3.Overhead(), float64(sent)/(1<<20), before, after)
}
