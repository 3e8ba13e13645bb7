package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// o2ib holds the dependencies of the o2iblnd entry in the table of drivers.
type o2ib struct {
	network socklnd.Network // network with the devices; nil means the host's
	// open opens RDMA for this process.
	open func() (verbs.Provider, error)
	// privileged reports whether this process may use privileged ports.
	privileged func() bool
	// rdma lists the RDMA devices.
	rdma *rdmaSystem
	// events calls event after each event about RDMA devices, until ctx is done.
	events func(ctx context.Context, event func()) error
}

// O2IB returns the driver for LNet over RDMA. The function open opens verbs. The devices are
// those of network, or of the host if it is nil.
func O2IB(network socklnd.Network, open func() (verbs.Provider, error)) Driver {
	o := &o2ib{network: network, open: open, privileged: mayUsePrivilegedPorts, rdma: hostRDMA, events: watchRDMA}
	return o.driver()
}

func (o *o2ib) driver() Driver {
	count := config.Whole{Min: 0, Max: math.MaxInt32}
	return Driver{
		DriverOptions: config.DriverOptions{
			Type:       lnet.TypeO2IB,
			Section:    "o2iblnd",
			About:      "Parameters of the driver for RDMA, named as ko2iblnd's module parameters.",
			Parameters: optionsOf(o2ibParameters()),
			Tunables: []config.Option{
				{Name: "peercredits_hiw", Kind: count},
				{Name: "map_on_demand", Kind: config.Truth{Count: true}},
				{Name: "concurrent_sends", Kind: count},
				{Name: "fmr_pool_size", Kind: count},
				{Name: "fmr_flush_trigger", Kind: count},
				{Name: "fmr_cache", Kind: count},
				{Name: "ntx", Kind: count},
				{Name: "conns_per_peer", Kind: config.Whole{Min: 0, Max: 127}},
				{Name: "timeout", Kind: config.Shown{}}, // can be set only while an NI is up
				{Name: "tos", Kind: config.Within{Min: -1, Max: 255}},
			},
			Check: func(v config.Values) error {
				c := o2ibConfig(v)
				return c.Validate()
			},
		},
		Name:     "RDMA",
		Make:     o.make,
		Options:  o2ibOptions,
		Show:     o2ibShow,
		Explain:  o2ibExplain,
		Defaults: o2ibDefaults,
		Usable:   o.usable,
		BuiltIn:  o.builtIn,
		Watch:    o.watch,
	}
}

// o2ibParameters returns ko2iblnd's module parameters under their own names (o2iblnd 15), and some
// that only a program in user space needs. Parameters that only the kernel's driver uses are
// accepted and shown, but have no effect.
func o2ibParameters() []setting[o2iblnd.Config] {
	type config = o2iblnd.Config
	const (
		once    = 1
		hour    = 3600
		million = 1 << 20
		credits = 1 << 24
		sec     = time.Second
	)
	defaults := o2iblnd.DefaultConfig()
	d := &defaults
	return []setting[config]{
		whole(d, "service", 1, 65535, once, func(c *config) *int { return &c.Service }, "port; all nodes of a net have the same"),
		whole(d, "cksum", 0, 2, once, func(c *config) *protocol.Variant { return &c.Checksum },
			"send checksums: 1 as kernels since 6.2, 2 as older ones on x86"),
		whole(d, "ignore_cksum", 0, 1, once, func(c *config) *protocol.Checking { return &c.Check }, "of what comes"),
		whole(d, "timeout", 0, hour, sec, func(c *config) *time.Duration { return &c.Timeout },
			"seconds without progress; 0: lnd_timeout"),
		whole(d, "keepalive", 0, credits, sec, func(c *config) *time.Duration { return &c.Keepalive },
			"seconds of silence before a NOOP; 0: never"),
		whole(d, "credits", 1, credits, once, func(c *config) *int { return &c.Tunables.Credits }, `defaults for "tunables" above`),
		whole(d, "peer_credits", 1, credits, once, func(c *config) *int { return &c.Tunables.PeerCredits }, "queue depth, 8 to 255"),
		whole(d, "peer_buffer_credits", 0, credits, once, func(c *config) *int { return &c.Tunables.PeerBufferCredits }, ""),
		whole(d, "peer_timeout", 0, credits, sec, func(c *config) *time.Duration { return &c.Tunables.PeerTimeout }, ""),
		whole(d, "peer_credits_hiw", 0, credits, once, func(c *config) *int { return &c.PeerCreditsHiw }, "0: half of peer_credits"),
		whole(d, "concurrent_sends", 0, credits, once, func(c *config) *int { return &c.ConcurrentSends }, "0: peer_credits"),
		whole(d, "conns_per_peer", 0, 127, once, func(c *config) *int { return &c.ConnsPerPeer }, ""),
		whole(d, "wrq_sge", 1, 16, once, func(c *config) *int { return &c.WrqSge }, "pieces of memory in an RDMA WRITE"),
		whole(d, "retry_count", 0, 7, once, func(c *config) *int { return &c.RetryCount }, ""),
		whole(d, "rnr_retry_count", 0, 7, once, func(c *config) *int { return &c.RNRRetryCount }, ""),
		whole(d, "tos", -1, 255, once, func(c *config) *int { return &c.TOS }, ""),
		truth(d, "require_privileged_port", func(c *config) *bool { return &c.RequirePrivilegedPort }, "of callers"),
		truth(d, "use_privileged_port", func(c *config) *bool { return &c.UsePrivilegedPort }, "to call from"),
		whole(d, "map_on_demand", 0, credits, once, func(c *config) *int { return &c.KernelOnly.MapOnDemand }, "this and the next four: only shown"),
		whole(d, "fmr_pool_size", 0, credits, once, func(c *config) *int { return &c.KernelOnly.FMRPoolSize }, ""),
		whole(d, "fmr_flush_trigger", 0, credits, once, func(c *config) *int { return &c.KernelOnly.FMRFlushTrigger }, ""),
		whole(d, "fmr_cache", 0, credits, once, func(c *config) *int { return &c.KernelOnly.FMRCache }, ""),
		whole(d, "ntx", 0, credits, once, func(c *config) *int { return &c.KernelOnly.NTX }, ""),
		whole(d, "pool", 4, million, million, func(c *config) *int { return &c.Pool },
			"MiB of registered memory for what no device knows, twice"),
		whole(d, "spin", 0, million, time.Microsecond, func(c *config) *time.Duration { return &c.Spin },
			"microseconds of looking before sleep"),
		whole(d, "half_open", 1, million, once, func(c *config) *int { return &c.MaxHalfOpen }, "callers that are not connected yet"),
		whole(d, "half_open_per_source", 1, million, once, func(c *config) *int { return &c.MaxHalfOpenPerSource }, ""),
	}
}

// o2ibConfig returns a driver's configuration with the options v.
func o2ibConfig(v config.Values) o2iblnd.Config {
	c := o2iblnd.DefaultConfig()
	putAll(&c, v, o2ibParameters())
	return c
}

// builtIn reports whether this lnetd was built with the driver.
func (o *o2ib) builtIn() bool {
	p, err := o.open()
	if err == nil {
		_ = p.Close()
	}
	return !errors.Is(err, verbs.ErrNotBuilt)
}

func (o *o2ib) make(v config.Values, log *slog.Logger) (Made, error) {
	c := o2ibConfig(v)
	if _, given := v["use_privileged_port"]; !given && !o.privileged() {
		c.UsePrivilegedPort = false
		log.Info("no right to use privileged ports: use_privileged_port=0, which nodes with require_privileged_port=1 refuse")
	}
	p, err := o.open()
	if err != nil {
		return Made{}, err
	}
	c.Provider, c.Network, c.Logger = p, netDevices{orHost(o.network)}, log
	d, err := o2iblnd.New(c)
	if err != nil {
		return Made{}, errors.Join(err, p.Close())
	}
	return Made{
		Driver: d,
		Close:  func() error { return errors.Join(d.Close(), p.Close()) },
		Attrs:  []any{"service", c.Service},
	}, nil
}

// netDevices adapts a network's devices to o2iblnd.
type netDevices struct{ socklnd.Network }

func (n netDevices) Device(name string, nid lnet.NID) (o2iblnd.NetDevice, error) {
	d, err := n.Network.Device(name, nid)
	if err != nil {
		return o2iblnd.NetDevice{}, err
	}
	found := o2iblnd.NetDevice{Name: d.Name, Off: d.Off, NoCarrier: d.NoCarrier, Up: d.Up, Addrs: make([]netip.Addr, len(d.Addrs))}
	for k, p := range d.Addrs {
		found.Addrs[k] = p.Addr()
	}
	return found, nil
}

// o2ibOptions returns the options of an NI.
func o2ibOptions(v config.Values) any {
	if len(v) == 0 {
		return nil
	}
	o := o2iblnd.DefaultOptions()
	for name, at := range map[string]*int{
		"peercredits_hiw": &o.PeerCreditsHiw, "concurrent_sends": &o.ConcurrentSends, "conns_per_peer": &o.ConnsPerPeer,
		"map_on_demand": &o.KernelOnly.MapOnDemand, "fmr_pool_size": &o.KernelOnly.FMRPoolSize,
		"fmr_flush_trigger": &o.KernelOnly.FMRFlushTrigger, "fmr_cache": &o.KernelOnly.FMRCache, "ntx": &o.KernelOnly.NTX,
	} {
		if n, ok := v.Number(name); ok {
			*at = n
		}
	}
	if n, ok := v.Number("tos"); ok {
		o.TOS = &n
	}
	if n, ok := v.Number("timeout"); ok {
		timeout := time.Duration(n) * time.Second
		o.Timeout = &timeout
	}
	return o
}

// o2ibDefaults returns the tunables and options of an NI without settings.
func o2ibDefaults(v config.Values) (lnd.Tunables, config.Values) {
	c := o2ibConfig(v)
	f := protocol.Flow{
		PeerCredits: c.Tunables.PeerCredits, HighWater: c.PeerCreditsHiw, ConcurrentSends: c.ConcurrentSends,
	}.Resolved()
	options := config.Values{}
	for name, n := range kernelOnly(&c.KernelOnly) {
		options[name] = strconv.FormatInt(n, 10)
	}
	options["peercredits_hiw"] = strconv.Itoa(f.HighWater)
	options["concurrent_sends"] = strconv.Itoa(f.ConcurrentSends)
	options["conns_per_peer"] = strconv.Itoa(max(c.ConnsPerPeer, 1))
	options["timeout"] = strconv.Itoa(int(c.Timeout / time.Second))
	options["tos"] = strconv.Itoa(max(c.TOS, -1))
	return c.Tunables, options
}

// kernelOnly returns the parameters that are only shown, by name.
func kernelOnly(k *o2iblnd.KernelOnly) map[string]int64 {
	return map[string]int64{
		"map_on_demand": number(k.MapOnDemand != 0), "fmr_pool_size": int64(k.FMRPoolSize),
		"fmr_flush_trigger": int64(k.FMRFlushTrigger), "fmr_cache": int64(k.FMRCache), "ntx": int64(k.NTX),
	}
}

// o2ibShow returns an NI's tunables as kernels show them (lnetctl 5.1 item 8).
func o2ibShow(i *node.NIInfo) map[string]int64 {
	o, ok := i.Options.(o2iblnd.Options)
	if !ok {
		return nil
	}
	shown := kernelOnly(&o.KernelOnly)
	shown["peercredits_hiw"], shown["concurrent_sends"] = int64(o.PeerCreditsHiw), int64(o.ConcurrentSends)
	shown["conns_per_peer"], shown["timeout"] = int64(o.ConnsPerPeer), int64(i.LNDTimeout/time.Second)
	shown["tos"] = int64(*o.TOS)
	return shown
}

// o2ibExplain explains why a port is not available, or why memory cannot be locked.
func o2ibExplain(err error) error {
	f := api.Fault{Code: api.CodeInterface}
	var listen *lnd.ListenError
	switch {
	case errors.Is(err, verbs.ErrLocked):
		f.Errno, f.Text = -int(syscall.ENOMEM), "memory cannot be registered with the RDMA device"
	case !errors.As(err, &listen):
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		f.Code, f.Errno = api.CodePortInUse, -int(syscall.EADDRINUSE)
		f.Text = fmt.Sprintf("RDMA port %s is in use", listen.Addr)
		f.Remedy = `find who has it with "rdma resource show cm_id", or unload the kernel's own LNet over RDMA (module ko2iblnd)`
	case errors.Is(err, syscall.EACCES):
		f.Code, f.Errno = api.CodePortForbidden, -int(syscall.EACCES)
		f.Text = fmt.Sprintf("no right to listen on RDMA port %s", listen.Addr)
		f.Remedy = "run as root or give lnetd the capability CAP_NET_BIND_SERVICE; " +
			`"service" in the section "o2iblnd" takes another port, which all nodes of the net have to have then`
	default:
		return nil
	}
	return f.Because(err)
}
