package hostnet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Mellanox/rdmamap"
)

// RDMA provides the RDMA devices of a host. It uses rdmamap to list them and to read their ports and counters.
// It reads itself which network devices they serve, from
//
//	DEVICE/ports/PORT/gid_attrs/ndevs/INDEX   the network device of an entry of the port's table of addresses
//
// A table has hundreds of entries. Most of them are empty and cannot be read. For each network device, rdmamap
// would read the tables of all devices. RDMA remembers the entry of each network device instead, and reads
// whole tables only if it has no entry for a network device, or if the entry has changed. RDMA is safe for
// concurrent use.
type RDMA struct {
	class    string                                          // directory that has an entry for each device
	counters func(device string, port int) map[string]uint64 // returns the counters of a port
	ipoib    func(netdev string) (device string, err error)  // returns the device that serves an InfiniBand interface

	mu    sync.Mutex       // guards found
	found map[string]place // where each network device was found
}

// NewRDMA returns the RDMA devices of this host.
func NewRDMA() *RDMA {
	return &RDMA{class: rdmamap.RdmaClassDir, counters: portCounters, ipoib: rdmamap.GetRdmaDeviceForNetdevice}
}

// RDMAAt returns the RDMA devices in the directory dir, whose layout is that of /sys/class/infiniband. It is
// for tests. The devices have no counters.
func RDMAAt(dir string) *RDMA {
	none := func(string, int) map[string]uint64 { return nil }
	return &RDMA{class: dir, counters: none, ipoib: func(string) (string, error) { return "", os.ErrNotExist }}
}

// hasRDMA reports whether this host has RDMA devices.
func hasRDMA() bool { return len(children(rdmamap.RdmaClassDir)) > 0 }

// RDMADevice is an RDMA device of a host.
type RDMADevice struct {
	Name string
	Nets []string // the network devices that it serves, sorted
}

// String returns the names of the device and of its network devices, such as "mlx5_0 (eth0, eth1)".
func (d RDMADevice) String() string {
	if len(d.Nets) == 0 {
		return d.Name
	}
	return d.Name + " (" + strings.Join(d.Nets, ", ") + ")"
}

// RDMAPort is a port of an RDMA device of a host.
type RDMAPort struct {
	Device, Port string
	Counters     map[string]uint64 // counters of the kernel and the device, by their names
}

// place is where the RDMA device was found that serves a network device.
type place struct {
	device string // "" if no device serves it
	file   string // the entry that contains the network device's name; "" for InfiniBand, whose tables contain no names
}

// children returns the names in a directory, sorted. It returns nil if the directory cannot be read.
func children(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Devices returns the RDMA devices, sorted by name.
func (s *RDMA) Devices() (all []RDMADevice) {
	for _, name := range children(s.class) {
		d := RDMADevice{Name: name}
		s.tables(name, func(_, netdev string) bool {
			if !slices.Contains(d.Nets, netdev) {
				d.Nets = append(d.Nets, netdev)
			}
			return true
		})
		slices.Sort(d.Nets)
		all = append(all, d)
	}
	return all
}

// tables calls f with each entry of the device's tables that contains the name of a network device, until f
// returns false.
func (s *RDMA) tables(device string, f func(file, netdev string) bool) {
	for _, port := range children(filepath.Join(s.class, device, "ports")) {
		dir := filepath.Join(s.class, device, "ports", port, "gid_attrs", "ndevs")
		for _, index := range children(dir) {
			file := filepath.Join(dir, index)
			if netdev := readWord(file); netdev != "" && !f(file, netdev) {
				return
			}
		}
	}
}

// deviceOf returns the RDMA device that serves a network device, or "" if no device does.
func (s *RDMA) deviceOf(netdev string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.found[netdev]
	if !s.holds(netdev, p) {
		p = s.search(netdev)
		if s.found == nil {
			s.found = make(map[string]place)
		}
		s.found[netdev] = p
	}
	return p.device
}

// holds reports whether a network device is still at the place p.
func (s *RDMA) holds(netdev string, p place) bool {
	if p.file != "" {
		return readWord(p.file) == netdev
	}
	return p.device != "" && slices.Contains(children(s.class), p.device)
}

// search returns where a network device is, first by its name in the tables of all devices, and then by its
// hardware address.
func (s *RDMA) search(netdev string) (p place) {
	for _, name := range children(s.class) {
		s.tables(name, func(file, serves string) bool {
			if serves == netdev {
				p = place{name, file}
			}
			return p.file == ""
		})
		if p.file != "" {
			return p
		}
	}
	if device, err := s.ipoib(netdev); err == nil {
		p.device = device
	}
	return p
}

// Ports returns the ports of all RDMA devices that serve one of the given network devices.
func (s *RDMA) Ports(netdevs []string) (list []RDMAPort) {
	seen := map[string]bool{}
	for _, netdev := range netdevs {
		device := s.deviceOf(netdev)
		if device == "" || seen[device] { // no RDMA device serves netdev, or its ports are in the list
			continue
		}
		seen[device] = true
		for _, port := range children(filepath.Join(s.class, device, "ports")) {
			if n, err := strconv.Atoi(port); err == nil {
				list = append(list, RDMAPort{Device: device, Port: port, Counters: s.counters(device, n)})
			}
		}
	}
	return list
}

// lifespan is in the list of a port's counters, but is not a counter: it is their maximum age.
const lifespan = "lifespan"

// portCounters returns the counters of a port: those of the kernel and those of the device, of which a device
// may have only one kind.
func portCounters(device string, port int) map[string]uint64 {
	all := map[string]uint64{}
	for _, read := range []func(string, int) ([]rdmamap.RdmaStatEntry, error){rdmamap.GetRdmaSysfsStats, rdmamap.GetRdmaSysfsHwStats} {
		entries, _ := read(device, port)
		for _, e := range entries {
			if e.Name != lifespan {
				all[e.Name] = e.Value
			}
		}
	}
	return all
}
