package config

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Override holds the settings of the command line, which override those of the file. A field with its zero
// value does not override anything.
type Override struct {
	Networks      []string // in the syntax of module parameters, or NIDs: "tcp(eth0)", "tcp1(eth1,eth2)", "10.0.0.1@tcp"
	Port          *int     // the port to listen on and to connect to, for all drivers that have PortOption
	ControlSocket string
	MetricsAddr   string
	WebConfig     string // Metrics.WebConfig
	LustreCompat  *bool  // Metrics.LustreCompat
	LogLevel      string
}

// Apply changes c by the settings of the command line in o. If it returns an error, which names the
// invalid options, c is unchanged.
func (c *Config) Apply(o Override, drivers []DriverOptions) error {
	next := *c
	var errs []error
	bad := func(option string, err error) {
		errs = append(errs, fmt.Errorf("--%s: %w", option, err))
	}
	if len(o.Networks) > 0 {
		nis, err := networksOrNIDs(o.Networks)
		if err != nil {
			bad("net", err)
		}
		next.NIs, next.Site.Rules, next.Site.IP2Nets = nis, nil, nil
		next.Given.Networks = true
	}
	if o.Port != nil {
		if err := next.setPort(*o.Port, drivers); err != nil {
			bad("port", err)
		}
	}
	next.applyAround(&o, bad)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	next.Given.CommandLine = o
	*c = next
	return nil
}

// applyAround applies those settings of o that configure lnetd itself instead of the node: the control
// socket, metrics and the log level. It calls bad for each invalid option.
func (c *Config) applyAround(o *Override, bad func(option string, err error)) {
	if o.ControlSocket != "" {
		c.ControlSocket = o.ControlSocket
	}
	if o.MetricsAddr != "" {
		if err := checkAddr(o.MetricsAddr); err != nil {
			bad("metrics-addr", err)
		}
		c.MetricsAddr = o.MetricsAddr
	}
	if o.WebConfig != "" {
		c.Metrics.WebConfig = o.WebConfig
	}
	if o.LustreCompat != nil {
		c.Metrics.LustreCompat = *o.LustreCompat
	}
	if o.LogLevel != "" {
		level, err := ParseLevel(o.LogLevel)
		if err != nil {
			bad("log-level", err)
		}
		c.LogLevel = level
	}
}

// setPort sets the port to listen on and the port to connect to, for all drivers that have these
// options.
func (c *Config) setPort(port int, drivers []DriverOptions) error {
	text, err := PortKind.read(strconv.Itoa(port))
	if err != nil {
		return err
	}
	for k := range drivers {
		d := &drivers[k]
		v := maps.Clone(c.Drivers[d.Type])
		for _, name := range []string{PortOption, ConnectPortOption} {
			if o := findOption(d.Own, name); o != nil {
				v = v.with(o, text)
			}
		}
		c.setDriver(d.Type, v)
	}
	return nil
}

// networksOrNIDs parses the values of --net, each of which is a NID or a string as in the module
// parameter "networks".
func networksOrNIDs(list []string) ([]NI, error) {
	var nids []NI
	var others []string
	for _, text := range list {
		if !strings.Contains(text, "@") {
			others = append(others, text)
			continue
		}
		nid, err := lnet.ParseNID(text)
		switch {
		case err != nil:
			return nil, err
		case nid.IsLoopback():
			return nil, errors.New("0@lo cannot be given, because every node has it")
		}
		nids = append(nids, NI{Net: nid.Net(), NID: nid, Tunables: lnd.Tunables{PeerTimeout: -1}})
	}
	if len(others) == 0 {
		return nids, nil
	}
	nis, err := networks(others)
	return append(nis, nids...), err
}

// networks parses strings of the module parameter "networks", as if they were one comma-separated list
// (lnetctl 13.1). It returns an error if they contain no net except lo.
func networks(list []string) ([]NI, error) {
	specs, err := lnet.ParseNetworks(strings.Join(list, ","))
	if err != nil {
		return nil, err
	}
	nis, err := nisOf(specs)
	if err == nil && len(nis) == 0 {
		err = errors.New("contains no net except lo")
	}
	return nis, err
}

// nisOf returns an NI for each interface in specs. For a net that names no interface it returns one NI,
// whose interface the driver chooses.
func nisOf(specs lnet.Networks) (nis []NI, _ error) {
	for _, s := range specs {
		devices := s.Interfaces
		if len(devices) == 0 {
			devices = []lnet.InterfaceSpec{{}} // the driver chooses
		}
		for k := range devices {
			cpts, err := cptsOf(s.CPTsOf(k))
			if err != nil {
				return nil, err
			}
			ni := NI{Net: s.Net, Device: devices[k].Name, Tunables: lnd.Tunables{PeerTimeout: -1}, CPTs: cpts}
			if devices[k].CPTs != nil {
				all, err := cptsOf(s.CPTs)
				if err != nil {
					return nil, err
				}
				ni.Listed = listedAfter(ni.Device, cpts, all)
			}
			nis = append(nis, ni)
		}
	}
	return nis, nil
}
