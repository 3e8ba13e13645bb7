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
	// Address returns the address ip of an interface with its prefix length, and the interface's
	// index.
	Address(name string, ip netip.Addr) (netip.Prefix, int, error)
	// Run runs a program and returns its output.
	Run(ctx context.Context, argv ...string) (string, error)
	// Sysctl reads a kernel parameter, such as "net.ipv4.conf.eth0.arp_ignore".
	Sysctl(key []string) (string, error)
	// SetSysctl sets a kernel parameter.
	SetSysctl(key []string, value string) error
}

// thisHost is the host, or the network namespace, that lnetdctl runs in.
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

// machine returns the host to configure.
func (p *program) machine() host {
	if p.host != nil {
		return p.host
	}
	return thisHost{}
}

// rail is an NI's interface, its address there, and the interface's index.
type rail struct {
	device  string
	address netip.Prefix
	index   int
}

// sharedRails returns the interfaces of NIs that share a subnet with interfaces of other NIs, with
// their addresses there, in the order of the NIs.
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
