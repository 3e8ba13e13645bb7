//go:build !race

// lnetd is built without the race detector here. TestKills runs the same code of lnetd's side with it.

package proxies

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// The same as TestKills with lnetd as the router, and proxies that carry messages over UDP.
//
// UP-2, UP-8
func TestKillsOfLnetd(t *testing.T) {
	programs, dir := t.TempDir(), testenv.SocketDir(t)
	if err := daemontest.Build(programs); err != nil {
		t.Fatal(err)
	}
	testKills(t, killed{
		net:  func(k int) lnet.Net { return lnet.MakeNet(udplnd.Type, uint16(7+k)) },
		over: "udp",
		start: func(o order) (kill func()) {
			file, socket := filepath.Join(dir, "lnetd.yaml"), filepath.Join(dir, "control")
			if err := os.WriteFile(file, []byte(routerConfig(t, o)), 0o600); err != nil {
				t.Fatal(err)
			}
			p := daemontest.Run(t, daemontest.Launch{
				Name: "router", Programs: programs, Socket: socket,
				Command: []string{filepath.Join(programs, "lnetd"), "--config", file, "--port", strconv.Itoa(o.Port), "--control-socket", socket},
			})
			return func() { p.Kill(t) }
		},
	})
}

// routerConfig returns the configuration of a router.
func routerConfig(t *testing.T, o order) string {
	t.Helper()
	p := parameters()
	text := fmt.Sprintf(`global: {transaction_timeout: %d, retry_count: %d}
lnetd:
  forwarding: enabled
  alive_router_check_interval: 1
  proxies: {socket: %s, net_types: [{name: %s, number: %d}]}
net:
`, int(p.TransactionTimeout.Seconds()), p.RetryCount, o.Socket, udpNets.Name, udpNets.Type)
	for _, name := range append([]string{o.NID}, o.Served...) {
		nid, err := lnet.ParseNID(name)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  - {net type: %s, nid: %s}\n", nid.Net(), nid)
	}
	return text
}
