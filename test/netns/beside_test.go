package netns

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// Given a host whose kernel has LNet's port at the host's own address, when lnetd runs there with another
// address, then it pings and is pinged. When the kernel has the port at all addresses, then lnetd does not
// start and says what to do, and lnetd in another namespace does.
//
// docs/service.md describes it: beside a kernel's LNet.
func TestBesideAnotherLNet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	shared, peer := w.host(t, 0), w.host(t, 0)
	const second = "10.213.0.100"
	namespace.IP(t, "-n", shared.name, "address", "add", second+"/24", "dev", "eth0")
	other := peer.start(t)
	command := []string{program(t, "lnetd"), "--net", second + "@tcp", "--control-socket", shared.socket()}

	kernel := shared.listen(t, shared.addr(0)+":988")
	d := shared.run(t, nil, nil, nil, command...)
	d.wantPing(t, peer)
	if out, status := other.Ctl(t, "ping", "--timeout", "10", second+"@tcp"); status != 0 || !strings.Contains(out, second+"@tcp") {
		t.Errorf("ping of %s: status %d\n%s", second, status, out)
	}
	d.Stop(t)
	_ = kernel.Close()

	kernel = shared.listen(t, ":988")
	out, err := exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", shared.name}, command...)...).CombinedOutput()
	for _, want := range []string{second + ":988 is in use", "network namespace"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, without %q\n%s", err, want, out)
		}
	}
	own := w.host(t, 0)
	own.start(t).wantPing(t, peer)
	_ = kernel.Close()
}

// listen opens a TCP listener in the host's namespace. An earlier one of this process may be open for a moment after
// Close, in a process that another test is starting.
func (h *host) listen(t *testing.T, address string) (l net.Listener) {
	t.Helper()
	daemontest.Within(t, 10*time.Second, "a listener", func() error {
		return namespace.Do(h.name, func() (err error) {
			l, err = net.Listen("tcp4", address)
			return err
		})
	})
	t.Cleanup(func() { _ = l.Close() })
	return l
}
