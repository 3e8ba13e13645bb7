package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// configuration is the part of a configuration file that differs between tests.
// Times are short, so that tests are.
type configuration struct {
	routes []route
	router bool // routing: enable: 1
	// patient is for tests in which nothing is to time out.
	patient bool
	// alone turns discovery off.
	alone bool
	// selftest has the node take part in LNet selftest, with these keys besides.
	selftest []string
}

// route leads to a network through a gateway that is known by its NID on another.
type route struct {
	to, on  int
	gateway *host
	hops    int
}

// Times of the configuration, in seconds. T, the LND timeout, is what a busy machine
// must not spend by itself.
const (
	transactionTimeout = 14
	// patientTransaction is for tests in which nothing is to time out.
	patientTransaction = 60
	retryCount         = 1
	// lndTimeout is the LND timeout that follows (lnet-core 6.5).
	lndTimeout    = (transactionTimeout - 1) / (retryCount + 1)
	routerCheck   = 1
	routerSilence = 3
)

// The same as durations.
const (
	transaction = transactionTimeout * time.Second
	tt          = lndTimeout * time.Second
	// connectionsDown bounds how long a driver takes to see that a connection
	// makes no progress: it looks four times in T, in steps of a second (socklnd 14).
	connectionsDown = tt + max(tt/4, time.Second)
	// answersDown bounds how long a request without an answer takes to end: it is
	// looked for in steps of half the transaction timeout (lnet-core 6.4).
	answersDown = transaction + transaction/2
	// lateness is what a busy machine may add.
	lateness = 10 * time.Second
	// announced is when a router that was told to forward says so (lnet-core 9.1).
	announced = (routerCheck + routerSilence) * time.Second
)

// write makes the host's configuration file and returns its path.
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
	// Health comes back in few pings, and those are never far apart.
	put("    health_sensitivity: 250\n    max_recovery_ping_interval: 2")
	put("lnetd:\n    control_socket: %s", h.socket())
	put("    alive_router_check_interval: %d\n    router_ping_timeout: %d", routerCheck, routerSilence)
	// Of lnd_timeout, and back soon.
	put("    socklnd:\n        sock_timeout: 0\n        min_reconnectms: 500\n        max_reconnectms: 1000")
	if c.selftest != nil {
		put("    selftest: {enabled: true, %s}", strings.Join(c.selftest, ", "))
	}
	path := filepath.Join(h.dir, "lnetd.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
