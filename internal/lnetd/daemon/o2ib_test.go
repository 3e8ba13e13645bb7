package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func noRDMA() (verbs.Provider, error) { return nil, verbs.Wrap(verbs.ErrNoRDMA, "open") }

// o2ibValues returns the options in a file's section "o2iblnd".
func o2ibValues(t *testing.T, section string) config.Values {
	t.Helper()
	return parse(t, "lnetd: {o2iblnd: {"+section+"}}").Drivers[lnet.TypeO2IB]
}

// o2iblnd 15
func TestO2IBConfig(t *testing.T) {
	got := o2ibConfig(o2ibValues(t, `service: 1987, cksum: 2, timeout: 20, keepalive: 0, peer_credits: 32, peer_credits_hiw: 16,
    credits: 1024, concurrent_sends: 64, ntx: 2048, map_on_demand: 256, fmr_pool_size: 2048, fmr_flush_trigger: 512,
    conns_per_peer: 4, use_privileged_port: 0, pool: 128, spin: 70`))
	want := o2iblnd.DefaultConfig()
	want.Service, want.Checksum, want.Timeout, want.Keepalive = 1987, protocol.Signed, 20*time.Second, 0
	want.Tunables.PeerCredits, want.PeerCreditsHiw, want.Tunables.Credits, want.ConcurrentSends = 32, 16, 1024, 64
	want.KernelOnly = o2iblnd.KernelOnly{MapOnDemand: 256, FMRPoolSize: 2048, FMRFlushTrigger: 512, FMRCache: 1, NTX: 2048}
	want.ConnsPerPeer, want.UsePrivilegedPort = 4, false
	want.Pool, want.Spin = 128<<20, 70*time.Microsecond
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every parameter is stored in a separate field.
func TestO2IBParametersAreApart(t *testing.T) {
	owner := map[string]string{}
	for _, o := range o2iblnd.Table().Tunables {
		value := o.Min
		if value == o.Default {
			value++
		}
		c := o2iblnd.DefaultConfig()
		if err := c.Set(o.Parameter, value); err != nil {
			t.Fatal(err)
		}
		changed := cmp.Diff(o2iblnd.DefaultConfig(), c)
		if other := owner[changed]; changed == "" || other != "" {
			t.Errorf("%s changes what %q does: %s", o.Parameter, other, changed)
		}
		owner[changed] = o.Parameter
	}
}

// fabricHost returns the drivers of a host with an RDMA device on eth0.
func fabricHost(t *testing.T, f *fabric.Fabric, name, addr string) Drivers {
	t.Helper()
	h := f.Host(name, addr)
	devices := host(lo, device("eth0", addr+"/24"), device("eth1", "10.78.0.11/24"))
	o := &o2ib{
		host: devices, open: func() (verbs.Provider, error) { return h.Open(), nil },
		privileged: func() bool { return true },
		rdma:       hostnet.RDMAAt(t.TempDir()),
	}
	return Drivers{TCP(devices), o.driver()}
}

// Two nodes with an NI over RDMA ping each other. They show the tunables that a kernel shows and
// exports.
func TestO2IBNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fabric.New(fabric.Config{})
		defer f.Close()
		exported, err := os.ReadFile(filepath.Join("..", "config", "testdata", "captures", "k-o2ib-rxe-brw-1m-peerA.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(exported), "\npeer:")
		a := startNodeWith(t, parse(t, text+"\n"), fabricHost(t, f, "a", "10.77.0.11")).ready(t)
		b := startNodeWith(t, parse(t, "net: [{net: o2ib, interfaces: [eth0], lnd tunables: {ntx: 7, tos: 16, conns_per_peer: 2}}]\n"),
			fabricHost(t, f, "b", "10.77.0.12")).ready(t)
		if got := strings.Join(append(a.nids(), b.nids()...), " "); got != "10.77.0.11@o2ib 10.77.0.12@o2ib" {
			t.Errorf("NIs %s", got)
		}
		for k, r := range []*nodeRun{a, b} {
			peer := []string{"10.77.0.12@o2ib", "10.77.0.11@o2ib"}[k]
			if _, err := r.node.Ping(t.Context(), lnet.ProcessID{NID: nid(t, peer), PID: lnet.PIDLustre}, node.PingOptions{}); err != nil {
				t.Errorf("ping of %s: %v", peer, err)
			}
		}
		recorded := []api.Tunable{
			{Name: "peercredits_hiw", Value: 4},
			{Name: "map_on_demand", Value: 1, Truth: true},
			{Name: "concurrent_sends", Value: 8},
			{Name: "fmr_pool_size", Value: 512},
			{Name: "fmr_flush_trigger", Value: 384},
			{Name: "fmr_cache", Value: 1},
			{Name: "ntx", Value: 512},
			{Name: "conns_per_peer", Value: 1},
			{Name: "timeout", Value: 50},
			{Name: "tos", Value: -1},
		}
		shown := func(r *nodeRun) (all []api.Tunable) {
			for _, n := range r.node.NIs() {
				all = append(all, r.node.engines.shownTunables(&n)...)
			}
			return all
		}
		if diff := cmp.Diff(recorded, shown(a)); diff != "" {
			t.Errorf("shown (-recorded +got):\n%s", diff)
		}
		recorded[6].Value, recorded[7].Value, recorded[9].Value = 7, 2, 16
		if diff := cmp.Diff(recorded, shown(b), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("shown as set (-want +got):\n%s", diff)
		}
	})
}

// If an NI over RDMA cannot come up, the error has the cause and a remedy.
func TestO2IBUsable(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	h := f.Host("a", "10.77.0.11")
	class := t.TempDir()
	for _, name := range []string{"mlx5_0", "rxe0"} {
		if err := os.Mkdir(filepath.Join(class, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := &o2ib{
		host: host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"), device("eth2", "fd77::11/64")),
		open: func() (verbs.Provider, error) { return h.Open(), nil },
		rdma: hostnet.RDMAAt(class),
	}
	net := lnet.MakeNet(lnet.TypeO2IB, 0)
	usable := func(device string) string {
		_, _, err := o.usable(&config.NI{Net: net, Device: device})
		if err == nil {
			return "usable"
		}
		if f, ok := errors.AsType[*api.Fault](err); ok {
			return f.Cause + "; " + f.Remedy
		}
		return err.Error()
	}
	for device, want := range map[string]string{
		"eth0": "usable",
		"eth1": "device eth1 does not support RDMA; use a network device of one of these RDMA devices: mlx5_0; rxe0",
		"eth2": "device eth2 has no IPv4 address",
		"eth9": `"eth9": no such network device`,
	} {
		if got := usable(device); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", device, got)
		}
	}
	o.rdma = hostnet.RDMAAt(t.TempDir())
	if got := usable("eth1"); !strings.Contains(got, "this host has no RDMA device") {
		t.Errorf("without devices: %s", got)
	}
	o.open = noRDMA
	if got := usable("eth0"); !strings.Contains(got, "rdma_ucm") {
		t.Errorf("without RDMA: %s", got)
	}
}

// At each event of the host RDMA is opened briefly, which releases removed devices. Without an event
// nothing is done.
func TestO2IBWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fabric.New(fabric.Config{})
		defer f.Close()
		h := f.Host("a", "10.77.0.11")
		var opened, changes atomic.Int32
		o := &o2ib{host: h, open: func() (verbs.Provider, error) { opened.Add(1); return h.Open(), nil }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.watch(ctx, func() { changes.Add(1) }) }()
		want := func(when string, n int32) {
			t.Helper()
			time.Sleep(time.Hour)
			if c, o := changes.Swap(0), opened.Swap(0); c != n || o != n {
				t.Errorf("%s: %d changes, RDMA was opened %d times; want %d", when, c, o, n)
			}
		}
		want("first", 1)
		want("nothing has happened", 0)
		h.Device(0).Remove()
		want("a device was removed", 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestO2IBExplain(t *testing.T) {
	at := netip.MustParseAddrPort("10.77.0.11:987")
	for _, tt := range []struct {
		err  error
		want api.Code
	}{
		{&lnd.ListenError{Addr: at, Err: syscall.EADDRINUSE}, api.CodePortInUse},
		{&lnd.ListenError{Addr: at, Err: syscall.EACCES}, api.CodePortForbidden},
		{&lnd.ListenError{Addr: at, Err: verbs.Wrap(verbs.ErrLocked, "register")}, api.CodeInterface},
	} {
		f, ok := errors.AsType[*api.Fault](o2ibExplain(tt.err))
		if !ok || f.Code != tt.want || f.Text == "" {
			t.Errorf("%v: %+v", tt.err, f)
		}
	}
	if err := o2ibExplain(syscall.EIO); err != nil {
		t.Errorf("EIO: %v", err)
	}
}

// Without the right to use privileged ports, connections use other ports, unless the
// configuration requires them.
func TestO2IBSourcePorts(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	h := f.Host("a", "10.77.0.11")
	var log strings.Builder
	o := &o2ib{
		host: host(lo), open: func() (verbs.Provider, error) { return h.Open(), nil }, privileged: func() bool { return false },
	}
	for _, given := range []config.Values{nil, {"use_privileged_port": "1"}} {
		log.Reset()
		m, err := o.make(given, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(log.String(), "use_privileged_port=0"); told != (given == nil) {
			t.Errorf("%v: %s", given, log.String())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
