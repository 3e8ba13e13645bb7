package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Ports of LNet over TCP.
const (
	// unprivilegedPort is where lnetd listens if no port is configured and it has no right to
	// listen on 988, the port of kernel nodes.
	unprivilegedPort = 9988
	// highestPrivileged is the highest source port that secure acceptors accept.
	highestPrivileged = 1023
)

// longestPoll is the maximum of busy_poll, in µs.
const longestPoll = int(socklnd.MaxBusyPoll / time.Microsecond)

// tcp holds the dependencies of the socklnd entry in the table of drivers.
type tcp struct {
	network socklnd.Network // nil means the host's
	// privileged reports whether this process may use privileged ports. linkPending reports
	// whether an interface may become usable soon.
	privileged, linkPending func() bool
}

// TCP returns the driver for LNet over TCP on a network, or on the host's network if it is nil.
func TCP(network socklnd.Network) Driver {
	t := tcp{network: network, privileged: mayUsePrivilegedPorts, linkPending: linkPending}
	return t.driver()
}

func (t *tcp) driver() Driver {
	return Driver{
		DriverOptions: config.DriverOptions{
			Type:       lnet.TypeTCP,
			Section:    "socklnd",
			About:      "Parameters of the TCP driver, named as ksocklnd's module parameters.",
			Own:        optionsOf(tcpOwn),
			Parameters: optionsOf(tcpParameters()),
			Tunables: []config.Option{
				{Name: "conns_per_peer", Kind: config.Whole{Min: 0, Max: 127}},
				{Name: "timeout", Kind: config.Shown{}}, // can be set only while an NI is up
				{Name: "tos", Kind: config.Within{Min: -1, Max: 255}},
				{Name: "busy_poll", Kind: config.Whole{Min: 0, Max: longestPoll}},
			},
			Check: func(v config.Values) error {
				c := tcpConfig(v)
				return c.Validate()
			},
		},
		Name:    "TCP",
		Make:    t.make,
		Options: tcpOptions,
		Show:    tcpShow,
		Again:   tcpAgain,
		Explain: tcpExplain,
		Find:    t.find,

		Defaults: tcpDefaults,
		Chosen:   []string{"conns_per_peer", "busy_poll"},
		Usable: func(ni *config.NI) (lnet.NID, string, error) {
			return socklnd.Usable(t.network, ni.Net, ni.Device, ni.NID)
		},
		Watch: func(ctx context.Context, changed func()) error { return orHost(t.network).Watch(ctx, changed) },
	}
}

// tcpOwn holds the settings that are keys of "lnetd" itself. Their defaults depend on the
// privileges of this process.
var tcpOwn = []setting[socklnd.Config]{
	{
		config.Option{Name: config.PortOption, Kind: config.PortKind},
		func(c *socklnd.Config, text string) {
			c.AcceptPort = numberOf(text)
			c.AcceptPortBulk = c.AcceptPort
		},
	}, {
		config.Option{Name: config.ConnectPortOption, Kind: config.PortKind},
		func(c *socklnd.Config, text string) {
			c.ConnectPort = numberOf(text)
			c.ConnectPortBulk = c.ConnectPort
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

// tcpParameters returns the module parameters of ksocklnd and of the acceptor under their own
// names (socklnd 19, lnet-wire 5.4).
func tcpParameters() []setting[socklnd.Config] {
	type config = socklnd.Config
	const (
		once    = 1
		hour    = 3600
		million = 1 << 20
		credits = 1 << 24
		bytes   = 1 << 30
		sec     = time.Second
		ms      = time.Millisecond
	)
	defaults := socklnd.DefaultConfig()
	d := &defaults
	return []setting[config]{
		port("accept_port_bulk", "where connections other than CONTROL come; 0: port",
			func(c *config) *int { return &c.AcceptPortBulk }),
		port("connect_port_bulk", "where they are made to; 0: connect_port",
			func(c *config) *int { return &c.ConnectPortBulk }),
		whole(d, "accept_backlog", 1, 4096, once, func(c *config) *int { return &c.AcceptBacklog }, "connections"),
		whole(d, "accept_timeout", 1, hour, sec, func(c *config) *time.Duration { return &c.AcceptTimeout },
			"seconds for a caller to introduce itself"),
		whole(d, "sock_timeout", 0, hour, sec, func(c *config) *time.Duration { return &c.SockTimeout },
			"seconds without progress; 0: lnd_timeout"),
		whole(d, "credits", 1, credits, once, func(c *config) *int { return &c.Tunables.Credits }, `defaults for "tunables" above`),
		whole(d, "peer_credits", 1, credits, once, func(c *config) *int { return &c.Tunables.PeerCredits }, ""),
		whole(d, "peer_buffer_credits", 0, credits, once, func(c *config) *int { return &c.Tunables.PeerBufferCredits }, ""),
		whole(d, "peer_timeout", 0, credits, sec, func(c *config) *time.Duration { return &c.Tunables.PeerTimeout }, ""),
		whole(d, "min_reconnectms", 1, hour*1000, ms, func(c *config) *time.Duration { return &c.MinReconnect }, ""),
		whole(d, "max_reconnectms", 1, hour*1000, ms, func(c *config) *time.Duration { return &c.MaxReconnect }, ""),
		whole(d, "eager_ack", 0, 15, once, func(c *config) *int { return &c.EagerAck }, "mask over connection types"),
		truth(d, "typed_conns", func(c *config) *bool { return &c.TypedConns }, ""),
		whole(d, "min_bulk", 0, bytes, once, func(c *config) *int { return &c.MinBulk },
			"bytes from which messages go on bulk connections"),
		whole(d, "tx_buffer_size", 0, bytes, once, func(c *config) *int { return &c.TxBufferSize }, "bytes; 0: the system's choice"),
		whole(d, "rx_buffer_size", 0, bytes, once, func(c *config) *int { return &c.RxBufferSize }, ""),
		truth(d, "nagle", func(c *config) *bool { return &c.Nagle }, ""),
		truth(d, "round_robin", func(c *config) *bool { return &c.RoundRobin }, ""),
		whole(d, "keepalive", 0, credits, sec, func(c *config) *time.Duration { return &c.Keepalive },
			"seconds of silence before a NOOP; 0: never"),
		whole(d, "keepalive_idle", 0, credits, sec, func(c *config) *time.Duration { return &c.KeepaliveIdle },
			"TCP keepalive; any of the three 0: none"),
		whole(d, "keepalive_count", 0, credits, once, func(c *config) *int { return &c.KeepaliveCount }, ""),
		whole(d, "keepalive_intvl", 0, credits, sec, func(c *config) *time.Duration { return &c.KeepaliveInterval }, ""),
		truth(d, "enable_csum", func(c *config) *bool { return &c.EnableChecksum }, "on V2 connections"),
		truth(d, "nonblk_zcack", func(c *config) *bool { return &c.NonblockingZCAck }, ""),
		whole(d, "conns_per_peer", 0, 127, once, func(c *config) *int { return &c.ConnsPerPeer }, ""),
		whole(d, "tos", -1, 255, once, func(c *config) *int { return &c.TOS }, ""),
		whole(d, "busy_poll", 0, longestPoll, time.Microsecond, func(c *config) *time.Duration { return &c.BusyPoll },
			"microseconds to watch sockets before sleeping; 0: never"),
		whole(d, "half_open", 1, million, once, func(c *config) *int { return &c.MaxHalfOpen },
			"callers that have not introduced themselves"),
		whole(d, "half_open_per_source", 1, million, once, func(c *config) *int { return &c.MaxHalfOpenPerSource }, ""),
	}
}

// port returns the setting of a port. 0 means that another setting applies.
func port(name, help string, of func(*socklnd.Config) *int) setting[socklnd.Config] {
	return setting[socklnd.Config]{
		config.Option{Name: name, Kind: config.Whole{Min: 0, Max: 65535}, Default: "0", Help: help},
		func(c *socklnd.Config, text string) {
			if n := numberOf(text); n != 0 {
				*of(c) = n
			}
		},
	}
}

// tcpConfig returns a driver's configuration with the options v.
func tcpConfig(v config.Values) socklnd.Config {
	c := socklnd.DefaultConfig()
	putAll(&c, v, tcpOwn)
	putAll(&c, v, tcpParameters())
	return c
}

func (t *tcp) make(v config.Values, log *slog.Logger) (Made, error) {
	c := tcpConfig(v)
	c.Network, c.Logger = t.network, log
	if _, given := v["accept"]; !given && c.AcceptPort > highestPrivileged && !t.privileged() {
		// A node without privileges connects from ports above 1023 and was configured to listen
		// above them too. It accepts nodes of the same kind. Kernel nodes do not connect to it in
		// any case.
		c.Accept = socklnd.AcceptAll
		log.Info("no right to use privileged ports: accept=all, so that nodes like this one can call it")
	}
	d, err := socklnd.New(c)
	if err != nil {
		return Made{}, err
	}
	return Made{Driver: d, Close: d.Close, Attrs: []any{"port", c.AcceptPort, "accept", c.Accept.String()}}, nil
}

// tcpOptions returns the options of an NI.
func tcpOptions(v config.Values) any {
	if len(v) == 0 {
		return nil
	}
	o := socklnd.Options{ConnsPerPeer: -1}
	if n, ok := v.Number("conns_per_peer"); ok {
		o.ConnsPerPeer = n
	}
	if n, ok := v.Number("tos"); ok {
		o.TOS = &n
	}
	if n, ok := v.Number("timeout"); ok {
		timeout := time.Duration(n) * time.Second
		o.Timeout = &timeout
	}
	if n, ok := v.Number("busy_poll"); ok {
		busyPoll := time.Duration(n) * time.Microsecond
		o.BusyPoll = &busyPoll
	}
	return o
}

// tcpDefaults returns the tunables and options of an NI without settings.
func tcpDefaults(v config.Values) (lnd.Tunables, config.Values) {
	c := tcpConfig(v)
	return c.Tunables, config.Values{
		"conns_per_peer": strconv.Itoa(c.ConnsPerPeer),
		"tos":            strconv.Itoa(c.TOS),
		"timeout":        strconv.Itoa(int(c.SockTimeout / time.Second)),
		"busy_poll":      strconv.Itoa(int(c.BusyPoll / time.Microsecond)),
	}
}

// tcpShow returns an NI's tunables as a kernel shows them, and busy_poll if it is in use.
func tcpShow(i *node.NIInfo) map[string]int64 {
	shown := map[string]int64{"timeout": int64(i.LNDTimeout / time.Second), "tos": -1}
	if o, ok := i.Options.(socklnd.Options); ok {
		shown["conns_per_peer"] = int64(o.ConnsPerPeer)
		if o.TOS != nil {
			shown["tos"] = int64(*o.TOS)
		}
		if o.BusyPoll != nil && *o.BusyPoll > 0 {
			shown["busy_poll"] = int64(*o.BusyPoll / time.Microsecond)
		}
	}
	return shown
}

// tcpAgain returns options with an unprivileged port to listen on and connect to, which accept
// peers without privileges. It does so if the default port is forbidden and no port is
// configured. A configured port to connect to is kept.
func tcpAgain(v config.Values, err error, log *slog.Logger) config.Values {
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

// warnUnprivileged logs the consequences of the unprivileged port.
func warnUnprivileged(c socklnd.Config, log *slog.Logger) {
	log.Warn("no right to listen on port 988: listening on another one", "port", c.AcceptPort, "accept", c.Accept.String())
	log.Warn("kernel nodes cannot call this node: they call port 988 only; other lnetd can if they are told which port to call",
		"port", c.AcceptPort)
	log.Warn("this node does not call port 988; to call kernel nodes set connect_port to 988: "+
		"those loaded with accept=all take it, others refuse source ports above 1023, which it calls from", "connect_port", c.ConnectPort)
	log.Warn("to be a full node run lnetd as root or give it the capability CAP_NET_BIND_SERVICE")
}

// tcpExplain explains why a port is not available.
func tcpExplain(err error) error {
	var listen *lnd.ListenError
	switch {
	case !errors.As(err, &listen):
	case errors.Is(err, syscall.EADDRINUSE):
		return portInUse(listen.Addr, "stop that process, give lnetd an address of its own with --net, or run it in a network namespace of its own; "+
			"with another --port kernel nodes cannot call it, since they call port 988 only")
	case errors.Is(err, syscall.EACCES):
		return portForbidden(listen.Addr, err)
	}
	return nil
}

func portForbidden(at netip.AddrPort, err error) error {
	return api.Fault{
		Code: api.CodePortForbidden, Errno: -int(syscall.EACCES),
		Text: fmt.Sprintf("no right to listen on %s", at),
		Remedy: "run as root, give lnetd the capability CAP_NET_BIND_SERVICE, " +
			"or choose a port above 1023 with --port (kernel nodes call port 988 only)",
	}.Because(err)
}

// mayUsePrivilegedPorts reports whether this process may use privileged ports, by binding one.
func mayUsePrivilegedPorts() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // the real attempt will show
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: highestPrivileged, Addr: [4]byte{127, 0, 0, 1}})
	return !errors.Is(err, syscall.EACCES)
}
