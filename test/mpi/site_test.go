//go:build mpi && cgo

package mpi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

var (
	tcpNet = lnet.MakeNet(lnet.TypeTCP, 0)
	mpiNet = lnet.MakeNet(mpilnd.DefaultType, 0)
)

// hosts is the number of addresses of this run that sites have.
var hosts atomic.Uint32

// loopback returns a NID of this run whose address is one of the loopback device. Other runs use other addresses.
func loopback(net lnet.Net, host uint32) lnet.NID {
	pid := os.Getpid()
	return lnet.NIDFromIP(net, netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(1 + host%250)}))
}

// site is lnetd on one or two hosts, each with an NI on tcp and one on mpi, and routers between both, and a node that
// is only on tcp.
type site struct {
	t     *testing.T
	dir   string
	first uint32 // number of the first address
	port  int
	lnetd []*daemontest.Process
	node  *node.Node
	inbox *node.Inbox
}

// newSite starts n lnetd and the node.
func newSite(t *testing.T, n int) *site {
	t.Helper()
	s := &site{t: t, dir: testenv.SocketDir(t), first: hosts.Add(uint32(n)+1) - uint32(n)}
	addresses := []string{loopback(tcpNet, s.first).IP().String()}
	for k := range n {
		addresses = append(addresses, s.nid(tcpNet, k).IP().String())
	}
	var err error
	if s.port, err = daemontest.FreePort(addresses...); err != nil {
		t.Fatal(err)
	}
	for k := range n {
		s.lnetd = append(s.lnetd, s.start(k))
	}
	s.startNode(n)
	return s
}

// nid returns the NID of the k-th lnetd on a net.
func (s *site) nid(net lnet.Net, k int) lnet.NID { return loopback(net, s.first+1+uint32(k)) }

// start starts the k-th lnetd.
func (s *site) start(k int) *daemontest.Process {
	s.t.Helper()
	name := "lnetd" + strconv.Itoa(k)
	file, socket := filepath.Join(s.dir, name+".yaml"), filepath.Join(s.dir, name)
	config := fmt.Sprintf(`net:
  - {net type: tcp, nid: %s}
  - {net type: mpi, nid: %s, proxy: mpi}
global: {transaction_timeout: 31, retry_count: 2}
lnetd:
  forwarding: enabled
  alive_router_check_interval: 1
  selftest: {enabled: true}
  proxies: {socket: %s, net_types: [{name: mpi, number: %d}]}
`, s.nid(tcpNet, k), s.nid(mpiNet, k), s.socket(k), mpilnd.DefaultType)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return daemontest.Run(s.t, daemontest.Launch{
		Name: name, Programs: programs, Socket: socket,
		Command: []string{filepath.Join(programs, "lnetd"), "--config", file, "--port", strconv.Itoa(s.port), "--control-socket", socket},
	})
}

// socket returns the path of the k-th lnetd's socket for proxies.
func (s *site) socket(k int) string { return filepath.Join(s.dir, "proxies"+strconv.Itoa(k)) }

// startNode starts the node on tcp, with routes to mpi through all lnetd.
func (s *site) startNode(n int) {
	s.t.Helper()
	c := socklnd.UnprivilegedConfig(s.port)
	c.MinReconnect, c.MaxReconnect = 50*time.Millisecond, 200*time.Millisecond
	d, err := socklnd.New(c)
	if err == nil {
		s.node, err = node.New(node.Config{Parameters: parameters()})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := errors.Join(s.node.Close(context.Background()), d.Close()); err != nil {
			s.t.Error(err)
		}
	})
	self := loopback(tcpNet, s.first)
	if _, err = s.node.AddNI(s.t.Context(), d, lnd.Config{Net: tcpNet, NID: self}); err != nil {
		s.t.Fatal(err)
	}
	if s.inbox, err = s.node.OpenInbox(node.InboxConfig{Portal: portal}); err != nil {
		s.t.Fatal(err)
	}
	for k := range n {
		if err := s.node.Admin().AddRoute(s.t.Context(), mpiNet, s.nid(tcpNet, k), node.RouteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// proxies returns the words for mpirun that add a proxy of each lnetd to a job.
func (s *site) proxies(options ...string) []string {
	var words []string
	for k := range s.lnetd {
		words = append(words, ":", "-n", "1", filepath.Join(programs, "lnet-mpi-proxy"), "--socket", s.socket(k), "--shims", programs)
		words = append(words, options...)
	}
	return words
}

// order returns the order of ranks that reach the node through the proxies.
func (s *site) order(role string) order {
	return order{Role: role, Shims: programs, Targets: []string{s.node.NID().String()}}
}

// awaitOutput runs lnetdctl with the k-th lnetd until its output contains a text, or does not contain it.
func (s *site) awaitOutput(k int, contains bool, text string, command ...string) {
	s.t.Helper()
	daemontest.Within(s.t, patience, text, func() error {
		if out, _ := s.lnetd[k].Ctl(s.t, command...); strings.Contains(out, text) != contains {
			return fmt.Errorf("%q printed %s", command, out)
		}
		return nil
	})
}
