package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/lnet"
)

// sameNetwork returns "" if the process of lnetd is in the network namespace of this process. Otherwise it returns the
// reason why the host cannot be examined. The PID is 0 if the process is not visible in the PID namespace of this one.
func sameNetwork(pid int) string {
	if pid == 0 {
		return "lnetd runs in another PID namespace"
	}
	own, err := os.Readlink("/proc/self/ns/net")
	its, err2 := os.Readlink(string(processOf(pid)) + "/ns/net")
	switch {
	case errors.Join(err, err2) != nil:
		return fmt.Sprintf("no permission to see the process of lnetd, pid %d; run lnetdctl as root or as the user of lnetd", pid)
	case own != its:
		return "lnetd runs in another network namespace"
	}
	return ""
}

// host returns what this host shows. The PID is that of lnetd, or 0 if it is not running. It returns nil if the
// interfaces cannot be read.
func host(pid int, directories []string) *diagnosis.Host {
	var h diagnosis.Host
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for k := range all {
		h.Interfaces = append(h.Interfaces, describe(&all[k]))
	}
	if pid > 0 {
		if err := processOf(pid).examine(&h); err != nil {
			h.Skips = append(h.Skips, diagnosis.Skip{Check: "limits of lnetd", Reason: err.Error()})
		}
	}
	for _, dir := range directories {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			h.Skips = append(h.Skips, diagnosis.Skip{Check: "free space of " + dir, Reason: err.Error()})
			continue
		}
		h.Disks = append(h.Disks, diagnosis.Disk{Path: dir, Free: st.Bavail * uint64(st.Bsize)})
	}
	return &h
}

// claims finds out whether other hosts have the addresses of NIs.
func (d *Doctor) claims(n *diagnosis.Node, h *diagnosis.Host) {
	var wait sync.WaitGroup
	var mu sync.Mutex // guards h
	for k := range n.Nets.Nets {
		for _, i := range n.Nets.Nets[k].NIs {
			address := i.NID.IP()
			if !diagnosis.OnTCP(i.NID) || len(i.Interfaces) == 0 || !address.Is4() || address.IsLoopback() {
				continue
			}
			wait.Go(func() {
				device, _, _ := strings.Cut(i.Interfaces[0], ":")
				found, err := claims(device, netip.Addr{}, address)
				mu.Lock()
				defer mu.Unlock()
				h.Claims = append(h.Claims, found...)
				if err != nil {
					h.Skips = append(h.Skips, skipARP(i.NID, err))
				}
			})
		}
	}
	wait.Wait()
	slices.SortFunc(h.Claims, func(a, b diagnosis.Claim) int { return a.Address.Compare(b.Address) })
	slices.SortFunc(h.Skips, func(a, b diagnosis.Skip) int { return cmp.Compare(a.Check, b.Check) })
}

// skipARP describes why the hosts with the address of a NID are unknown.
func skipARP(nid lnet.NID, err error) diagnosis.Skip {
	reason := err.Error()
	if errors.Is(err, unix.EPERM) {
		reason = "no permission to send ARP requests, which needs CAP_NET_RAW"
	}
	return diagnosis.Skip{Check: "hosts with the address of " + nid.String(), Reason: reason}
}

func describe(i *net.Interface) diagnosis.Interface {
	on := i.Flags&net.FlagUp != 0
	loopback := i.Flags&net.FlagLoopback != 0
	d := diagnosis.Interface{Name: i.Name, On: on, Carrier: on && (loopback || i.Flags&net.FlagRunning != 0), Loopback: loopback, MTU: i.MTU}
	addrs, err := i.Addrs()
	if err != nil {
		return d
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			d.Addrs = append(d.Addrs, p.Addr().Unmap())
		}
	}
	return d
}
