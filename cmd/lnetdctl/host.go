package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// host provides the network settings that setup-mrrouting and setup-sysctl read and change.
type host interface {
	// Address returns the address ip of the interface name together with its prefix length, and the
	// index of the interface.
	Address(name string, ip netip.Addr) (netip.Prefix, int, error)
	// Run runs a program and returns its output.
	Run(ctx context.Context, argv ...string) (string, error)
	// Sysctl reads a kernel parameter. The key has the parts of its name, such as "net", "ipv4", "conf",
	// "eth0" and "arp_ignore".
	Sysctl(key []string) (string, error)
	// SetSysctl sets a kernel parameter.
	SetSysctl(key []string, value string) error
}

// thisHost is the host on which lnetdctl runs, or the network namespace in which it runs.
type thisHost struct{}

func (thisHost) Address(name string, ip netip.Addr) (netip.Prefix, int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Prefix{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return netip.Prefix{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
			return p, i.Index, nil
		}
	}
	return netip.Prefix{}, 0, fmt.Errorf("%s does not have the address %s: is lnetd in another network namespace?", name, ip)
}

func (thisHost) Run(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if said := strings.TrimSpace(string(out)); err != nil && said != "" {
		err = fmt.Errorf("%s: %w", said, err)
	}
	return string(out), err
}

func sysctlFile(key []string) string {
	return filepath.Join(append([]string{"/proc/sys"}, key...)...)
}

func (thisHost) Sysctl(key []string) (string, error) {
	b, err := os.ReadFile(sysctlFile(key))
	return strings.TrimSpace(string(b)), err
}

func (thisHost) SetSysctl(key []string, value string) error {
	return os.WriteFile(sysctlFile(key), []byte(value), 0o644)
}

// machine returns the host that commands configure.
func (p *program) machine() host {
	if p.host != nil {
		return p.host
	}
	return thisHost{}
}

// rail is the interface of an NI, with the NI's address and the index of the interface.
type rail struct {
	device  string
	address netip.Prefix
	index   int
}

// sharedRails returns the rails whose IP subnet is also that of another NI's rail, in the order of the NIs.
func sharedRails(h host, nets []api.Net) ([]rail, error) {
	var all []rail
	for k := range nets {
		for i := range nets[k].NIs {
			ni := &nets[k].NIs[i]
			if len(ni.Interfaces) == 0 || !ni.NID.IP().IsValid() || ni.NID.IP().IsLoopback() {
				continue
			}
			address, index, err := h.Address(ni.Interfaces[0], ni.NID.IP())
			if err != nil {
				return nil, err
			}
			if r := (rail{ni.Interfaces[0], address, index}); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r rail) bool {
		return !slices.ContainsFunc(all, func(o rail) bool { return o.device != r.device && o.address.Masked() == r.address.Masked() })
	}), nil
}
