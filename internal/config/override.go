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

// Override holds what the command line says over the file. Zero values leave
// what the file says.
type Override struct {
	Networks      []string // module-parameter syntax: "tcp(eth0)", "tcp1(eth1,eth2)"
	Port          *int     // to listen on and to call; for drivers with PortOption
	ControlSocket string
	MetricsAddr   string
	LogLevel      string
}

// Apply changes c as o says, or not at all. Errors name the option.
func (c *Config) Apply(o Override, drivers []DriverOptions) error {
	next := *c
	var errs []error
	bad := func(option string, err error) {
		errs = append(errs, fmt.Errorf("--%s: %w", option, err))
	}
	if len(o.Networks) > 0 {
		nis, err := networks(o.Networks)
		if err != nil {
			bad("net", err)
		}
		next.NIs, next.Site.Rules, next.Site.IP2Nets = nis, nil, nil
	}
	if o.Port != nil {
		if err := next.setPort(*o.Port, drivers); err != nil {
			bad("port", err)
		}
	}
	if o.ControlSocket != "" {
		next.ControlSocket = o.ControlSocket
	}
	if o.MetricsAddr != "" {
		if err := checkAddr(o.MetricsAddr); err != nil {
			bad("metrics-addr", err)
		}
		next.MetricsAddr = o.MetricsAddr
	}
	if o.LogLevel != "" {
		level, err := parseLevel(o.LogLevel)
		if err != nil {
			bad("log-level", err)
		}
		next.LogLevel = level
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*c = next
	return nil
}

// setPort makes port the one to listen on and the one to call.
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

// networks reads "networks" strings (lnetctl 13.1). Several are one list.
func networks(list []string) ([]NI, error) {
	specs, err := lnet.ParseNetworks(strings.Join(list, ","))
	if err != nil {
		return nil, err
	}
	nis := nisOf(specs)
	if len(nis) == 0 {
		return nil, errors.New("names no net besides lo")
	}
	return nis, nil
}

// nisOf are the NIs of the interfaces, or one for a net that names none.
func nisOf(specs lnet.Networks) (nis []NI) {
	for _, s := range specs {
		if len(s.Interfaces) == 0 {
			nis = append(nis, NI{Net: s.Net, Tunables: lnd.Tunables{PeerTimeout: -1}})
		}
		for _, i := range s.Interfaces {
			nis = append(nis, NI{Net: s.Net, Device: i.Name, Tunables: lnd.Tunables{PeerTimeout: -1}})
		}
	}
	return nis
}
