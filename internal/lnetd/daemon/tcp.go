package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Ports of LNet over TCP.
const (
	// unprivilegedPort is the port on which lnetd listens if no port is configured and lnetd has no
	// permission to listen on 988, the port of kernel nodes.
	unprivilegedPort = 9988
	// highestPrivileged is the highest source port from which a node with accept=secure accepts
	// connections.
	highestPrivileged = 1023
)

// tcp holds what the Driver for TCP depends on, so that tests can replace it.
type tcp struct {
	network socklnd.Network
	// privileged reports whether this process may use ports below 1024.
	privileged func() bool
}

// TCP returns the driver for LNet over TCP. It uses the devices and connections of network.
func TCP(network socklnd.Network) Driver {
	t := tcp{network: network, privileged: mayUsePrivilegedPorts}
	return t.driver()
}

func (t *tcp) driver() Driver {
	return Driver{
		DriverOptions: config.DriverOptions{
			Table: socklnd.Table(),
			Own:   optionsOf(tcpOwn),
			Check: func(v config.Values) error {
				c := tcpConfig(v)
				return c.Validate()
			},
		},
		Name:     "TCP",
		Make:     t.make,
		Fallback: tcpFallback,
		Explain:  tcpExplain,
		Find:     t.find,

		TryListen: t.tryListen,

		Defaults: tcpDefaults,
		Usable: func(ni *config.NI) (lnet.NID, string, error) {
			return hostnet.Usable(t.network, ni.Net, ni.Device, ni.NID)
		},
		Watch: t.network.Watch,
	}
}

// tcpOwn holds the options of the driver that are keys of the section "lnetd" itself, instead of the
// driver's section. Most of their defaults depend on the privileges of this process.
var tcpOwn = []setting[socklnd.Config]{
	{
		config.Option{Name: config.PortOption, Kind: config.PortKind},
		func(c *socklnd.Config, text string) {
			c.AcceptPort = numberOf(text)
		},
	}, {
		config.Option{Name: config.ConnectPortOption, Kind: config.PortKind},
		func(c *socklnd.Config, text string) {
			c.ConnectPort = numberOf(text)
		},
	}, {
		config.Option{Name: "accept", Kind: config.Words{"secure", "all", "none"}},
		func(c *socklnd.Config, text string) { _ = c.Accept.UnmarshalText([]byte(text)) }, // validated already
	}, {
		config.Option{Name: "source_ports", Kind: config.Words{"auto", "privileged", "any"}, Default: "auto"},
		func(c *socklnd.Config, text string) { c.SourcePorts = sourcePorts[text] },
	},
}

var sourcePorts = map[string]socklnd.SourcePorts{
	"auto": socklnd.SourceAuto, "privileged": socklnd.SourcePrivileged, "any": socklnd.SourceAny,
}

// tcpConfig returns the default configuration of the driver with the options v set in it.
func tcpConfig(v config.Values) socklnd.Config {
	c := socklnd.DefaultConfig()
	putAll(&c, v, tcpOwn)
	v.Set(socklnd.Table(), c.Set)
	return c
}

func (t *tcp) make(v config.Values, log *slog.Logger) (Made, error) {
	c := tcpConfig(v)
	c.Network, c.Logger = t.network, log
	if _, given := v["accept"]; !given && c.AcceptPort > highestPrivileged && !t.privileged() {
		// This node may only connect from ports above 1023, and is configured to listen on such a
		// port. Other nodes like it connect from such ports too, so they must be accepted. Kernel
		// nodes cannot connect to it in any case.
		c.Accept = socklnd.AcceptAll
		log.Info("no permission to use privileged ports: using accept=all, so that nodes without that permission can connect")
	}
	d, err := socklnd.New(c)
	if err != nil {
		return Made{}, err
	}
	return Made{Driver: d, Close: d.Close, Attrs: []any{"port", c.AcceptPort, "accept", c.Accept.String()}}, nil
}

// tcpDefaults returns the tunables and options of an NI without own settings if its driver has the
// options v.
func tcpDefaults(v config.Values) (lnd.Tunables, lnd.Values) {
	c := tcpConfig(v)
	return c.Tunables, c.Values()
}

// tcpFallback returns the driver options for a process that may not listen on the default port: it
// listens on unprivilegedPort, connects to the same port unless connect_port is configured, and accepts
// connections from any source port. It returns nil if a port is configured, or if err has another
// cause.
func tcpFallback(v config.Values, err error, log *slog.Logger) config.Values {
	var listen *lnd.ListenError
	_, given := v[config.PortOption]
	if given || !errors.As(err, &listen) || !errors.Is(err, syscall.EACCES) {
		return nil
	}
	again := config.Values{config.ConnectPortOption: fmt.Sprint(unprivilegedPort)}
	for name, value := range v {
		again[name] = value
	}
	again[config.PortOption] = fmt.Sprint(unprivilegedPort)
	again["accept"] = socklnd.AcceptAll.String()
	warnUnprivileged(tcpConfig(again), log)
	return again
}

// warnUnprivileged logs which nodes can and cannot connect if lnetd listens on the unprivileged port.
func warnUnprivileged(c socklnd.Config, log *slog.Logger) {
	log.Warn("no permission to listen on port 988; listening on another port", "port", c.AcceptPort, "accept", c.Accept.String())
	log.Warn("kernel nodes cannot connect to this node, because they only connect to port 988; nodes that run lnetd can, if their connect_port is the port of this node",
		"port", c.AcceptPort)
	log.Warn("this node cannot connect to kernel nodes, which listen on port 988; set connect_port to 988 to reach those "+
		"with accept=all (others refuse source ports above 1023)", "connect_port", c.ConnectPort)
	log.Warn("to connect with all kernel nodes, run lnetd as root or give it the capability CAP_NET_BIND_SERVICE")
}

// tcpExplain returns the error for an operator if a port is not available. It returns nil for other
// errors.
func tcpExplain(err error) error {
	var listen *lnd.ListenError
	switch {
	case !errors.As(err, &listen):
	case errors.Is(err, syscall.EADDRINUSE):
		return portInUse(listen.Addr, "stop that process, give lnetd another address with --net, or run it in another network namespace; "+
			"with another --port kernel nodes cannot connect to it, because they only use port 988")
	case errors.Is(err, syscall.EACCES):
		return portForbidden(listen.Addr, err)
	}
	return nil
}

func portForbidden(at netip.AddrPort, err error) error {
	return api.Fault{
		Code: api.CodePortForbidden, Errno: -int(syscall.EACCES),
		Text: fmt.Sprintf("no permission to listen on %s", at),
		Remedy: "run as root, give lnetd the capability CAP_NET_BIND_SERVICE, " +
			"or choose a port above 1023 with --port (kernel nodes only connect to port 988)",
	}.Because(err)
}

// mayUsePrivilegedPorts reports whether this process may use ports below 1024. It finds out by binding
// a socket to such a port.
func mayUsePrivilegedPorts() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // unknown; listening on the port shows it later
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: highestPrivileged, Addr: [4]byte{127, 0, 0, 1}})
	return !errors.Is(err, syscall.EACCES)
}
