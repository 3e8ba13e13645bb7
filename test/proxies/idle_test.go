package proxies

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Idle proxies cost almost no processor time, and neither does lnetd's side of them. The test prints how much.
func TestIdle(t *testing.T) {
	const proxies, port = 8, 9974
	length := time.Second
	if *long {
		length = time.Minute
	}
	o := order{Role: "router", Socket: filepath.Join(testenv.SocketDir(t), "proxies"), Port: port}
	for k := range proxies {
		o.Served = append(o.Served, loopback(tcp(uint16(20+k)), byte(30+k)).String())
	}
	server := enter(t, o)
	server.Expect("up")
	pause := func() time.Duration {
		before := processorTime(t, server.PID())
		rest(t.Context(), length)
		return processorTime(t, server.PID()) - before
	}
	alone := pause()
	var all []*guest
	for _, nid := range o.Served {
		g := enter(t, order{Role: "proxy", Socket: o.Socket, NID: nid, Port: port})
		g.Expect("up")
		all = append(all, g)
	}
	before := processorTime(t, all[0].PID())
	with := pause()
	one := processorTime(t, all[0].PID()) - before
	t.Logf("processor time in %v: lnetd's side without proxies %v, with %d idle proxies %v; one proxy %v", length, alone, proxies, with, one)
	for _, g := range all {
		g.Leave()
	}
	server.Leave()
}
