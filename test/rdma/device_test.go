package rdma

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// spare is a device that a test may remove: an address, the network device, and the name of the
// RDMA device.
func spare(t *testing.T) (address, netdev, link string) {
	t.Helper()
	if _, err := fmt.Sscan(os.Getenv("LNETD_TEST_RDMA_SPARE"), &address, &netdev, &link); err != nil {
		t.Skip("needs an RDMA device that may go: LNETD_TEST_RDMA_SPARE='ADDRESS NETDEV LINK'")
	}
	return address, netdev, link
}

// command runs a command, which must end within patience.
func command(t *testing.T, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", words, err, out)
	}
}

// Given nodes with NIs on a device, and another one that had one, when the device is removed, then
// the removal completes, because they release it, and their NIs are down. When the device returns,
// then their NIs and the traffic return too. NIs on another device are not affected.
func TestDeviceReturnsOnDevices(t *testing.T) {
	at := addresses(t, 3)
	address, netdev, link := spare(t)
	second, third := address+"1", address+"2" // 10.78.0.11, 10.78.0.12
	for _, more := range []string{second, third} {
		command(t, "ip", "address", "add", more+"/24", "dev", netdev)
	}
	a := start(t, "", at[0]+"@o2ib", address+"@o2ib1")
	b := start(t, "", at[1]+"@o2ib", second+"@o2ib1")
	had := start(t, "", at[2]+"@o2ib", third+"@o2ib2")
	had.Must(t, "net", "del", "--net", "o2ib2")
	a.wantPingOf(t, second+"@o2ib1", b)
	for range 2 {
		command(t, "rdma", "link", "delete", link)
		daemontest.Within(t, patience, "the NI goes down", func() error { return a.wantStatus(t, address+"@o2ib1", "down") })
		a.wantPing(t, b)
		command(t, "rdma", "link", "add", link, "type", "rxe", "netdev", netdev)
		daemontest.Within(t, patience, "the NI comes back", func() error { return a.wantStatus(t, address+"@o2ib1", "up") })
		daemontest.Within(t, patience, "ping", func() error { return a.pingOf(t, second+"@o2ib1", b) })
	}
	for _, n := range []*daemon{a, b, had} {
		n.Stop(t)
	}
}

func (n *daemon) pingOf(t *testing.T, nid string, of *daemon) error {
	t.Helper()
	out, status := n.Ctl(t, "ping", "--timeout", "10", nid)
	return saying(out, status, of)
}

func (n *daemon) wantPingOf(t *testing.T, nid string, of *daemon) {
	t.Helper()
	if err := n.pingOf(t, nid, of); err != nil {
		t.Errorf("%s pings %s: %v", n.Name, nid, err)
	}
}

// wantStatus returns an error unless an NI has a status.
func (n *daemon) wantStatus(t *testing.T, nid, status string) error {
	t.Helper()
	out, _ := n.Ctl(t, "net", "show")
	_, of, found := strings.Cut(out, "nid: "+nid+"\n")
	line, _, _ := strings.Cut(strings.TrimSpace(of), "\n")
	if !found || line != "status: "+status {
		return fmt.Errorf("%s is not %s: %s", nid, status, out)
	}
	return nil
}
