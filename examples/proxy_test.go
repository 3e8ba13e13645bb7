package examples

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Given a node whose NI udpproxy serves, when a node over UDP sends it a message, then it arrives. When the
// proxy is killed and another one is started, messages arrive again.
//
// UP-1, UP-2
func TestUDPProxy(t *testing.T) {
	program := build(t, "udpproxy")
	server, socket := startServer(t)
	const port = "9989"
	address := func(last byte) netip.Addr {
		pid := os.Getpid()
		return netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), last})
	}
	nid := func(last byte) lnet.NID { return lnet.NIDFromIP(lnet.MakeNet(udplnd.Type, 0), address(last)) }
	served := startUDP(t, server.Driver(udplnd.Type, ""), nid(201))
	plain := startUDP(t, &udplnd.Driver{Port: 9989, Listen: udplnd.UDP}, nid(202))
	inbox, err := served.OpenInbox(node.InboxConfig{Portal: 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hello", "again"} {
		proxy := exec.CommandContext(t.Context(), program, "-socket", socket, "-address", address(201).String(), "-port", port)
		proxy.Cancel = func() error { return proxy.Process.Signal(syscall.SIGTERM) }
		proxy.Stderr = t.Output()
		if err := proxy.Start(); err != nil {
			t.Fatal(err)
		}
		send(t, plain, lnet.ProcessID{NID: served.NID()}, text)
		for m, err := range inbox.Messages(t.Context()) {
			if err != nil || string(m.Data) != text {
				t.Fatalf("%q, %v; want %q", m.Data, err, text)
			}
			break
		}
		if err := proxy.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = proxy.Wait()
	}
}

// startServer starts a server of proxies.
func startServer(t *testing.T) (*uplnd.Server, string) {
	t.Helper()
	server, err := uplnd.NewServer(uplnd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "proxies.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return server, socket
}

// startUDP starts a node with an NI over UDP.
func startUDP(t *testing.T, d lnd.Driver, nid lnet.NID) *node.Node {
	t.Helper()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := n.AddNI(t.Context(), d, lnd.Config{NID: nid}); err != nil {
		t.Fatal(err)
	}
	return n
}

// send sends a text, again and again until it was accepted.
func send(t *testing.T, n *node.Node, to lnet.ProcessID, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := n.PutWait(t.Context(), []byte(text), to, node.PutOptions{Portal: 30, Ack: true})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
