package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// proxiesTask accepts proxies: other processes that are the drivers of NIs.
type proxiesTask struct {
	server *uplnd.Server
	rules  atomic.Pointer[proxies.Rules]
	// listener is nil if no net is served by proxies.
	listener *unixsocket.Listener
	log      *slog.Logger
	ready    chan struct{}
}

// newProxiesTask returns a task that accepts the proxies that connect to l. If l is nil, no net is served by
// proxies. If the task's Run is never called, the caller must close l.
func newProxiesTask(rules proxies.Rules, l *unixsocket.Listener, log *slog.Logger) (*proxiesTask, error) {
	t := &proxiesTask{listener: l, log: log, ready: make(chan struct{})}
	t.rules.Store(&rules)
	var err error
	t.server, err = uplnd.NewServer(uplnd.Config{
		Host: &hostnet.Kernel{}, Logger: log,
		Admit: func(conn *net.UnixConn, p *uplnd.Proxy) (uplnd.Terms, error) { return t.rules.Load().Admit(conn, p) },
	})
	return t, err
}

func (t *proxiesTask) Ready() <-chan struct{} { return t.ready }
func (t *proxiesTask) String() string         { return "proxies" }

// Run implements Task. The NIs that proxies serve must be closed before ctx is done.
func (t *proxiesTask) Run(ctx context.Context) error {
	close(t.ready)
	if t.listener == nil {
		<-ctx.Done()
		return nil
	}
	t.log.Info("accepting proxies, the drivers of NIs in other processes", "socket", t.path(), "rules", len(*t.rules.Load()))
	served := make(chan error, 1)
	go func() { served <- t.server.Serve(t.listener.UnixListener) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(err, t.server.Close(closing), <-served, t.listener.Close())
}

// path returns the path that proxies connect to. It is empty if no net is served by proxies.
func (t *proxiesTask) path() string {
	if t.listener == nil {
		return ""
	}
	return t.listener.Path()
}

// WithProxies returns t and a driver for each of the net types, whose NIs proxies serve. They connect to server,
// which may be nil if no NI is brought up.
func (t Drivers) WithProxies(types []lnet.NamedType, server *uplnd.Server) Drivers {
	t, host := slices.Clip(t), &hostnet.Kernel{}
	for _, n := range types {
		t = append(t, proxied(n, server, host))
	}
	return t
}

// proxied returns the driver for a net type whose NIs proxies serve. NIs without a NID get an address of host. The
// driver for TCP reports that an interface may have become usable.
func proxied(n lnet.NamedType, server *uplnd.Server, host hostnet.Host) Driver {
	return Driver{
		DriverOptions: config.ProxiedOptions(n.Type),
		Name:          n.Name,
		Make: func(config.Values, *slog.Logger) (Made, error) {
			return Made{For: func(ni *config.NI) lnd.Driver { return server.Driver(n.Type, ni.Proxy) }}, nil
		},
		Defaults: func(config.Values) (lnd.Tunables, lnd.Values) { return uplnd.Defaults() },
		Usable: func(ni *config.NI) (lnet.NID, string, error) {
			if !ni.NID.IsZero() && (ni.Device == "" || !n.IP) {
				return ni.NID, ni.Device, nil // the address may exist only on the proxies' network
			}
			return hostnet.Usable(host, ni.Net, ni.Device, ni.NID)
		},
	}
}

// checkProxy returns an error if proxies with a name cannot serve the NIs on nets of type typ. An empty name is always
// possible.
func (t Drivers) checkProxy(name string, typ lnet.NetType) error {
	err := config.CheckProxy(name, &t.of(typ).DriverOptions)
	if err == nil {
		return nil
	}
	return api.Fault{
		Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "invalid proxy",
		Remedy: "proxies serve the nets whose types are in \"lnetd: proxies: net_types\" of the configuration",
	}.Because(err)
}

// listenProxies returns a listener on the socket for proxies. It is chosen like that for clients.
func (d *Daemon) listenProxies(control string) (*unixsocket.Listener, error) {
	c := &d.config.Proxies
	path := cmp.Or(c.Socket, besideControl(control, "proxies.sock"))
	return d.unixListener(unixSocket{
		name: proxiesSocketName, kind: systemd.UnixPacket, path: path, group: c.Group,
		listen: func() (*unixsocket.Listener, error) {
			l, err := unixsocket.Listen("unixpacket", path, c.Group)
			if err != nil {
				return nil, socketUnusable("proxies", "proxies", `remove "net_types"`, path, err)
			}
			return l, nil
		},
	})
}

// setProxyRules replaces the rules for proxies.
func (d *Daemon) setProxyRules(c *config.Config) bool {
	if d.proxies == nil {
		return false
	}
	rules := c.Proxies.Rules
	d.proxies.rules.Store(&rules)
	d.loaded.Proxies.Rules = rules
	d.log.Info("new rules apply to proxies that connect from now on", "rules", len(rules))
	return true
}

// addProxies adds the proxies, and the NIs that lack one, to the reply about clients.
func (b *backend) addProxies(all *api.Clients) {
	if all.ProxySocket = b.proxies.path(); all.ProxySocket == "" {
		return
	}
	for _, p := range b.proxies.server.Proxies() {
		all.Proxies = append(all.Proxies, api.ProxyInfo{
			Name: p.Name, NID: p.NID, PID: p.PID, UID: p.UID, GID: p.GID, Rule: p.Rule, Since: p.Since, Up: p.Up,
			LNetPIDs: append([]lnet.PID{}, p.PIDs...), AreaBytes: p.AreaSize, Sends: p.Sends, Waiting: p.Waiting, Arrivals: p.Arrivals,
			Sent: p.Sent, Received: p.Received, SentBytes: p.SentBytes, ReceivedBytes: p.ReceivedBytes, Failed: p.Failed,
		})
	}
	for _, i := range b.node.NIs() {
		if b.node.drivers.of(i.Net.Type()).Proxied && i.Link != lnd.LinkUp {
			all.Unserved = append(all.Unserved, api.UnservedNI{NI: i.NID.String(), NID: i.NID, Reason: i.LinkCause})
		}
	}
	for _, w := range b.node.engines.waiting() {
		if b.node.drivers.of(w.Net.Type()).Proxied {
			all.Unserved = append(all.Unserved, api.UnservedNI{NI: w.NI.String(), Reason: "it waits for its interface: " + w.cause})
		}
	}
}
