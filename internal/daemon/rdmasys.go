package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lnetd/lnetd/internal/metrics"
)

// rdmaSystem reads what sysfs says of RDMA devices. In a directory of each device it has
//
//	ports/PORT/gid_attrs/ndevs/INDEX   the network device of an entry of the port's table of addresses
//	ports/PORT/counters/NAME           a counter, and so in hw_counters
//
// A table has hundreds of entries, most of which are empty and cannot be read. So a whole table is read
// only if a network device was not looked for before, or has moved.
type rdmaSystem struct {
	class string // /sys/class/infiniband

	mu    sync.Mutex        // guards found
	found map[string]string // the file that named a network device when it was last looked for
}

// hostRDMA is what the host has.
var hostRDMA = &rdmaSystem{class: "/sys/class/infiniband"}

// names are the devices, in order.
func (s *rdmaSystem) names() []string { return children(s.class) }

// children are the names in a directory, in order. It returns none if the directory cannot be read.
func children(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// list returns the devices with the network devices that they serve, for a message.
func (s *rdmaSystem) list() (all []rdmaDevice) {
	for _, name := range s.names() {
		d := rdmaDevice{name: name}
		s.tables(name, func(_, netdev string) bool {
			if !slices.Contains(d.nets, netdev) {
				d.nets = append(d.nets, netdev)
			}
			return true
		})
		slices.Sort(d.nets)
		all = append(all, d)
	}
	return all
}

// tables calls f with each entry of a device's tables that names a network device, until f returns false.
func (s *rdmaSystem) tables(device string, f func(file, netdev string) bool) {
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

// readWord returns a file's content without the white space around it, or "" if it cannot be read.
func readWord(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// deviceOf returns the device that serves a network device, or "" if none does.
func (s *rdmaSystem) deviceOf(netdev string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.found[netdev]
	if file == "" || readWord(file) != netdev {
		file = ""
		for _, name := range s.names() {
			s.tables(name, func(at, serves string) bool {
				if serves == netdev {
					file = at
				}
				return file == ""
			})
			if file != "" {
				break
			}
		}
		if s.found == nil {
			s.found = make(map[string]string)
		}
		s.found[netdev] = file
	}
	if file == "" {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(file, s.class+"/"), "/")
	return name
}

// ports returns the ports of the devices that serve network devices, each once.
func (s *rdmaSystem) ports(netdevs []string) (list []metrics.RDMAPort) {
	seen := map[string]bool{}
	for _, netdev := range netdevs {
		device := s.deviceOf(netdev)
		if device == "" || seen[device] { // it may just have gone
			continue
		}
		seen[device] = true
		for _, port := range children(filepath.Join(s.class, device, "ports")) {
			list = append(list, metrics.RDMAPort{Device: device, Port: port, Counters: s.counters(device, port)})
		}
	}
	return list
}

// lifespan lies among a port's counters, and says how old they may be.
const lifespan = "lifespan"

// counters are those that a port has. Not every device has both kinds.
func (s *rdmaSystem) counters(device, port string) map[string]uint64 {
	all := map[string]uint64{}
	for _, kind := range []string{"counters", "hw_counters"} {
		dir := filepath.Join(s.class, device, "ports", port, kind)
		for _, name := range children(dir) {
			v, err := strconv.ParseUint(readWord(filepath.Join(dir, name)), 10, 64)
			if err == nil && name != lifespan {
				all[name] = v
			}
		}
	}
	return all
}
