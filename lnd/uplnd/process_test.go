package uplnd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

// otherSocket names the environment variable that makes this test program a proxy. Its value is lnetd's socket;
// otherNID has the NID of the NI.
const (
	otherSocket = "UPLND_TEST_SOCKET"
	otherNID    = "UPLND_TEST_NID"
	// port is that of socklnd in proxies.
	port = 9981
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(otherSocket); socket != "" {
		err := serve(socket, os.Getenv(otherNID))
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, syscall.ESHUTDOWN) {
			os.Exit(0)
		}
		os.Exit(1)
	}
	if kind := os.Getenv(other); kind != "" {
		fmt.Fprintln(os.Stderr, runOther(kind, os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve is a proxy with socklnd over TCP.
func serve(socket, text string) error {
	nid, err := lnet.ParseNID(text)
	if err != nil {
		return err
	}
	d, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}
	err = proxy.Run(context.Background(), proxy.Config{Socket: socket, Name: "tcp", Net: nid.Net(), NID: nid, Driver: d})
	return errors.Join(err, d.Close())
}

// startProcess starts a proxy in another process. Its result is ESHUTDOWN if lnetd has detached it because the NI
// was closed.
func startProcess(socket string, c *lnd.Config) (chan error, func()) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherSocket+"="+socket, otherNID+"="+c.NID.String())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	done := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		done <- err
		return done, func() {}
	}
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = syscall.ESHUTDOWN
		}
		done <- fmt.Errorf("%w: %s", err, &stderr)
	}()
	return done, func() { _ = cmd.Process.Kill() }
}

// loopbackNID returns the NID of node k. Each test process uses other addresses.
func loopbackNID(k int) lnet.NID {
	pid := os.Getpid()
	return lnet.NIDFromIP(proxied, netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(k + 1)}))
}

// TestConformanceOfProcesses runs parts of the suite with a process for each proxy, over TCP.
//
// UP-2, PT-3
func TestConformanceOfProcesses(t *testing.T) {
	themes := map[string]bool{"Headers": true, "Payload": true, "Placement": true, "Order": true, "Load": true, "Restart": true}
	lndtest.Run(t, lndtest.Harness{
		New: processes,
		Only: func(theme, name string) bool {
			return themes[theme] && name != "SendAndDisconnectWithinPeerRestarted"
		},
		Chain:       500,
		MaxUnplaced: 10,
		Ordered:     true,
	})
}

// processes returns a world of n nodes, each an NI whose proxy is another process.
func processes(t *testing.T, n int) *lndtest.World {
	sites := make([]*site, n)
	for k := range n {
		sites[k] = newSite(t, uplnd.Config{AreaSize: 16 << 20, Quarantine: -1})
	}
	return &lndtest.World{
		NID: loopbackNID,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			sites[k].leave(t)
			return sites[k].open(ctx, lnd.Config{Net: proxied, NID: loopbackNID(k), Upper: u}, startProcess)
		},
		Close: func() {
			for _, s := range sites {
				s.close(t)
			}
		},
		Renew: func(k int) { sites[k].leave(t) },
	}
}
