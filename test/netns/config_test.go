package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// configuration is the part of a configuration file that differs between tests. Its timeouts are short,
// to keep tests short.
type configuration struct {
	routes []route
	router bool // routing: enable: 1
	// patient is for tests in which nothing should time out.
	patient bool
	// alone disables discovery.
	alone bool
	// selftest enables LNet selftest on the node, with these additional keys.
	selftest []string
}

// route is a route to a network. The gateway is given by its NID on another network.
type route struct {
	to, on  int
	gateway *host
	hops    int
}

// Times of the configuration, in seconds. T is the LND timeout. Delays of a busy machine must stay below
// it.
const (
	transactionTimeout = 14
	// patientTransaction is for tests in which nothing should time out.
	patientTransaction = 60
	retryCount         = 1
	// lndTimeout is the resulting LND timeout (lnet-core 6.5).
	lndTimeout    = (transactionTimeout - 1) / (retryCount + 1)
	routerCheck   = 1
	routerSilence = 3
)

// The same values as durations.
const (
	transaction = transactionTimeout * time.Second
	tt          = lndTimeout * time.Second
	// connectionsDown is the time limit for a driver to detect that a connection makes no progress. It
	// checks four times in T, in steps of a second (socklnd 14).
	connectionsDown = tt + max(tt/4, time.Second)
	// answersDown is the time limit for a request without an answer. Requests are checked in steps of
	// half the transaction timeout (lnet-core 6.4).
	answersDown = transaction + transaction/2
	// lateness is the delay that a busy machine may add.
	lateness = 10 * time.Second
	// announced is the time after which a router announces that it forwards (lnet-core 9.1).
	announced = (routerCheck + routerSilence) * time.Second
)

// write writes the host's configuration file and returns its path.
func (h *host) write(t *testing.T, c *configuration) string {
	t.Helper()
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("net:")
	for k, network := range h.networks {
		put("    - net type: %s\n      local NI(s):\n        - interfaces:\n              0: eth%d", lnetOf(network), k)
	}
	if len(c.routes) > 0 {
		put("route:")
	}
	for _, r := range c.routes {
		put("    - net: %s\n      gateway: %s\n      hop: %d", lnetOf(r.to), r.gateway.nidOn(r.on), r.hops)
	}
	if c.router {
		put("routing:\n    enable: 1")
	}
	timeout := transactionTimeout
	if c.patient {
		timeout = patientTransaction
	}
	put("global:\n    transaction_timeout: %d\n    retry_count: %d", timeout, retryCount)
	if c.alone {
		put("    discovery: 0")
	}
	// Health recovers after a few pings, which are close together.
	put("    health_sensitivity: 250\n    max_recovery_ping_interval: 2")
	put("lnetd:\n    control_socket: %s", h.socket())
	put("    alive_router_check_interval: %d\n    router_ping_timeout: %d", routerCheck, routerSilence)
	// Derive the timeout from lnd_timeout, and reconnect soon.
	put("    socklnd:\n        sock_timeout: 0\n        min_reconnectms: 500\n        max_reconnectms: 1000")
	if c.selftest != nil {
		put("    selftest: {enabled: true, %s}", strings.Join(c.selftest, ", "))
	}
	return h.file(t, "lnetd.yaml", b.String())
}

// file writes a file in the host's directory and returns its path.
func (h *host) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
