package netns

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// While lnetd runs with an NI on an interface, the interface appears, is switched on, gets an
// address, loses it, disappears and comes back.
//
// lnetctl 4.2 (2)
func TestInterfaceComesAndGoes(t *testing.T) {
	w := newWorld(t, 1)
	h := w.host(t, 0)
	d := h.run(t, nil, nil, nil, program(t, "lnetd"), "--control-socket", h.socket(),
		"--net", "tcp(eth0)", "--net", "tcp7(late0)")
	await := func(what, want string) {
		t.Helper()
		daemontest.Within(t, noticePatience, what, func() error {
			nets := ask(t, d, func(ctx context.Context, c *client.Client) (api.Nets, error) { return c.NetsAndWaiting(ctx, "") })
			got := niStates(&nets)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
	}
	ip := func(args ...string) {
		t.Helper()
		namespace.IP(t, append([]string{"-n", h.name}, args...)...)
	}

	appear := func() {
		t.Helper()
		ip("link", "add", "late0", "type", "veth", "peer", "name", "late1")
		ip("link", "set", "late1", "up")
	}

	await("the NI waits", "late0 waits: no such network device")
	await("the other one is up", h.nid()+" up")
	appear()
	await("switched off it waits", "late0 waits: device late0 is down")
	ip("link", "set", "late0", "up")
	await("without an address it waits", "late0 waits: device late0 has no usable address")
	ip("addr", "add", "10.214.0.1/24", "dev", "late0")
	await("the NI comes up", "10.214.0.1@tcp7 up")

	ip("addr", "del", "10.214.0.1/24", "dev", "late0")
	await("without its address the NI is down", "10.214.0.1@tcp7 down")
	ip("addr", "add", "10.214.0.1/24", "dev", "late0")
	await("with it it is up", "10.214.0.1@tcp7 up")

	ip("link", "del", "late0")
	await("an NI whose interface has gone stays, down", "10.214.0.1@tcp7 down")
	appear()
	ip("addr", "add", "10.214.0.1/24", "dev", "late0")
	ip("link", "set", "late0", "up")
	await("it is up when the interface is back", "10.214.0.1@tcp7 up")
}

// niStates returns the NIs as "10.0.0.1@tcp up", and waiting ones as "eth0 waits: why".
func niStates(nets *api.Nets) (all []string) {
	for _, n := range nets.Nets {
		for k := range n.NIs {
			all = append(all, n.NIs[k].NID.String()+" "+n.NIs[k].Status)
		}
	}
	for _, w := range nets.Waiting {
		all = append(all, w.Interface+" waits: "+strings.TrimPrefix(w.Cause, strconv.Quote(w.Interface)+": "))
	}
	return all
}
