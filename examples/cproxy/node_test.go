package cproxy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// The proxy compiles without a warning, with gcc and, if that is installed, with clang.
func TestCompilers(t *testing.T) {
	testenv.NeedCommand(t, "gcc", "gcc")
	compilers := []string{"gcc"}
	if _, err := exec.LookPath("clang"); err == nil {
		compilers = append(compilers, "clang")
	}
	for _, compiler := range compilers {
		if err := compile(compiler, filepath.Join(t.TempDir(), "cproxy"), "-O2"); err != nil {
			t.Error(err)
		}
	}
}

const putPortal, getPortal = 30, 31

// host is a node with an NI, for messages.
type host struct {
	*node.Node
	inbox *node.Inbox
	close func()
}

// startHost starts node k. offered is what it answers GETs with.
func startHost(t testing.TB, d lnd.Driver, k int, offered []byte) *host {
	t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{Node: n}
	h.close = sync.OnceFunc(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.close)
	if _, err := n.AddNI(t.Context(), d, lnd.Config{NID: nid(k)}); err != nil {
		t.Fatal(err)
	}
	if h.inbox, err = n.OpenInbox(node.InboxConfig{Portal: putPortal}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Attach(portals.Entry{Portal: getPortal}, portals.MD{
		Bytes: offered, Options: portals.OpGet | portals.ManageRemote | portals.Truncate, Threshold: portals.Unlimited,
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

// startServed starts an lnetd with node k and a proxy in C.
func startServed(t testing.TB, k int) (*host, *program) {
	t.Helper()
	return startServedBy(t, uplnd.Config{}, k)
}

// startServedBy does the same with a configuration of the server.
func startServedBy(t testing.TB, c uplnd.Config, k int) (*host, *program) {
	t.Helper()
	socket := socketPath(t)
	server, _ := serve(t, c, socket)
	h := startHost(t, server.Driver(udplnd.Type, ""), k, pattern(lnet.MTU))
	return h, start(t, sanitized(t), socket, k)
}

// pattern returns n bytes, each of which depends on its position.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i>>8*17 + i>>16)
	}
	return b
}

func (h *host) id() lnet.ProcessID { return lnet.ProcessID{NID: h.NID()} }

// reach pings a node until it answers.
func (h *host) reach(t testing.TB, to *host) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v answers %v", to.NID(), h.NID()), func() bool {
		_, err := h.Ping(t.Context(), to.id(), node.PingOptions{})
		return err == nil
	})
}

// exchange pings, and sends and fetches payloads of several sizes.
func (h *host) exchange(t testing.TB, with *host) {
	t.Helper()
	h.reach(t, with)
	for _, size := range []int{0, 1, 4096, 8192, 8193, lnet.MTU} {
		want := pattern(size)
		if n, err := h.PutWait(t.Context(), want, with.id(), node.PutOptions{Portal: putPortal, Ack: true}); n != size || err != nil {
			t.Fatalf("PUT of %d bytes: %d, %v", size, n, err)
		}
		if m, err := with.inbox.Next(t.Context()); err != nil || !bytes.Equal(m.Data, want) {
			t.Fatalf("PUT of %d bytes: %d bytes arrived, or others; %v", size, len(m.Data), err)
		} else {
			m.Release()
		}
		sink := make([]byte, size)
		if n, err := h.GetWait(t.Context(), sink, with.id(), node.GetOptions{Portal: getPortal}); n != size || err != nil || !bytes.Equal(sink, want) {
			t.Fatalf("GET of %d bytes: %d, or other bytes; %v", size, n, err)
		}
	}
}

// A node that the proxy serves exchanges messages with nodes that another proxy in C, the driver itself, and a
// proxy in Go serve.
//
// UP-1, UP-2
func TestTraffic(t *testing.T) {
	served, _ := startServed(t, 101)
	for name, startPeer := range map[string]func(t testing.TB) *host{
		"C": func(t testing.TB) *host { h, _ := startServed(t, 102); return h },
		"Go": func(t testing.TB) *host {
			return startHost(t, &udplnd.Driver{Port: port, Listen: udplnd.UDP}, 103, pattern(lnet.MTU))
		},
		"Go proxy": startGoProxy,
	} {
		t.Run(name, func(t *testing.T) {
			peer := startPeer(t)
			served.exchange(t, peer)
			peer.exchange(t, served)
		})
	}
}

// With the smallest rings, and memory for one payload, two nodes exchange more messages at a time than fit.
func TestSmallestMemory(t *testing.T) {
	smallest := uplnd.Config{AreaSize: 2 << 20, Entries: 64}
	a, _ := startServedBy(t, smallest, 105)
	b, _ := startServedBy(t, smallest, 106)
	a.exchange(t, b)
	var senders sync.WaitGroup
	defer senders.Wait()
	const count = 200
	for k := range 2 * count {
		from, to := a, b
		if k%2 == 0 {
			from, to = b, a
		}
		senders.Go(func() {
			want := pattern(k * 7)
			if n, err := from.PutWait(t.Context(), want, to.id(), node.PutOptions{Portal: putPortal, Ack: true}); n != len(want) || err != nil {
				t.Errorf("PUT of %d bytes: %d, %v", len(want), n, err)
			}
		})
	}
	for range count {
		for _, h := range []*host{a, b} {
			m, err := h.inbox.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.Data, pattern(len(m.Data))) {
				t.Errorf("%d other bytes arrived", len(m.Data))
			}
			m.Release()
		}
	}
}

// startGoProxy starts a node that examples/udpproxy serves.
func startGoProxy(t testing.TB) *host {
	path := filepath.Join(t.TempDir(), "udpproxy")
	if out, err := exec.Command("go", "build", "-o", path, "../udpproxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	socket := socketPath(t)
	server, _ := serve(t, uplnd.Config{}, socket)
	h := startHost(t, server.Driver(udplnd.Type, ""), 104, pattern(lnet.MTU))
	proxy := exec.Command(path, "-socket", socket, "-address", address(104).String(), "-port", fmt.Sprint(port))
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = proxy.Wait()
	})
	return h
}

// Given a stream of messages, when the proxy of either side is killed and another one starts, then messages
// arrive again, and each has the right payload.
func TestKilledProxy(t *testing.T) {
	for name, killed := range map[string]int{"sender": 0, "receiver": 1} {
		t.Run(name, func(t *testing.T) {
			var hosts [2]*host
			var sockets [2]string
			var proxies [2]*program
			for k := range hosts {
				sockets[k] = socketPath(t)
				server, _ := serve(t, uplnd.Config{}, sockets[k])
				hosts[k] = startHost(t, server.Driver(udplnd.Type, ""), 111+k, nil)
				proxies[k] = start(t, sanitized(t), sockets[k], 111+k)
			}
			want := pattern(lnet.MTU)
			ctx, stop := context.WithCancel(t.Context())
			var sender sync.WaitGroup
			sender.Go(func() {
				for ctx.Err() == nil { // messages and ACKs are lost with a proxy
					once, cancel := context.WithTimeout(ctx, time.Second)
					_, _ = hosts[0].PutWait(once, want, hosts[1].id(), node.PutOptions{Portal: putPortal, Ack: true})
					cancel()
				}
			})
			defer sender.Wait()
			defer stop()
			count := 0
			for m, err := range hosts[1].inbox.Messages(ctx) {
				if err != nil || !bytes.Equal(m.Data, want) {
					t.Fatalf("%d bytes arrived, or others; %v", len(m.Data), err)
				}
				switch count++; count {
				case 3:
					proxies[killed].kill()
					start(t, sanitized(t), sockets[killed], 111+killed)
				case 10:
					return
				}
			}
		})
	}
}

// When the NI is shut down, the proxy prints why, tries again, and serves the NI when it is back. It loses no
// file descriptor.
func TestShutDownNI(t *testing.T) {
	socket := socketPath(t)
	server, _ := serve(t, uplnd.Config{}, socket)
	served := startHost(t, server.Driver(udplnd.Type, ""), 121, nil)
	plain := startHost(t, &udplnd.Driver{Port: port, Listen: udplnd.UDP}, 122, nil)
	proxy := start(t, sanitized(t), socket, 121)
	files := 0
	for round := 1; round <= 3; round++ {
		plain.reach(t, served)
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", proxy.cmd.Process.Pid))
		if err != nil || files != 0 && len(fds) != files {
			t.Errorf("the proxy has %d files open, and had %d; %v", len(fds), files, err)
		}
		files = len(fds)
		if err := served.RemoveNI(t.Context(), nid(121)); err != nil {
			t.Fatal(err)
		}
		proxy.waitFor("shut down", round)
		proxy.waitFor("(No such device)", round)
		if _, err := served.AddNI(t.Context(), server.Driver(udplnd.Type, ""), lnd.Config{NID: nid(121)}); err != nil {
			t.Fatal(err)
		}
	}
	plain.reach(t, served)
}

// When lnetd ends and another one starts, the proxy serves that.
func TestLnetdRestarts(t *testing.T) {
	socket := socketPath(t)
	plain := startHost(t, &udplnd.Driver{Port: port, Listen: udplnd.UDP}, 131, pattern(lnet.MTU))
	proxy := start(t, sanitized(t), socket, 132)
	for round := 1; round <= 3; round++ {
		proxy.waitFor("No such file", round) // there is no socket
		server, end := serve(t, uplnd.Config{}, socket)
		served := startHost(t, server.Driver(udplnd.Type, ""), 132, pattern(lnet.MTU))
		served.exchange(t, plain)
		served.close()
		end()
	}
}

// A proxy waits while another one has its UDP port or serves its NI, and serves the NI when that is gone.
func TestSecondProxy(t *testing.T) {
	for name, c := range map[string]struct {
		port int
		why  string
	}{
		"same port":  {port, "Address already in use"},
		"other port": {port - 1, "another proxy serves the NI"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := socketPath(t)
			server, _ := serve(t, uplnd.Config{}, socket)
			startHost(t, server.Driver(udplnd.Type, ""), 141, nil)
			first := start(t, sanitized(t), socket, 141)
			first.waitFor("serving", 1)
			second := startAt(t, sanitized(t), socket, 141, c.port)
			second.waitFor(c.why, 1)
			first.kill()
			second.waitFor("serving", 1)
		})
	}
}
