package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/selection"
)

// Machine is the CPTs of a machine. It does not change, and may be used from any
// goroutine. The zero Machine has none, so that all is unknown.
type Machine struct {
	// Pages returns the NUMA nodes of the pages with these addresses, below 0 for those that are
	// nowhere yet. If it is nil, which it is but in tests, the kernel is asked.
	Pages func(addrs []uintptr) []int

	root fs.FS
	// nodes are the numbers of the NUMA nodes, by CPT.
	nodes     []int
	cpuCPT    map[int]int
	distances [][]uint32
}

// LocalDistance is the distance of a node from itself where the machine does not say.
const LocalDistance = 10

// Where sysfs keeps what is read here, below its root.
const (
	nodesDir = "devices/system/node"
	netDir   = "class/net"
	verbsDir = "class/infiniband"
)

// Read reads the layout from sysfs, such as os.DirFS("/sys"). A machine whose
// kernel knows no NUMA nodes is one CPT, whose processors nobody knows. An error
// names the file.
func Read(sysfs fs.FS) (*Machine, error) {
	m := &Machine{root: sysfs, cpuCPT: make(map[int]int)}
	numbers, err := nodeNumbers(sysfs)
	if err != nil {
		return nil, fmt.Errorf("numa: %w", err)
	}
	rows := make(map[int]map[int]uint32)
	for _, n := range numbers {
		cpus, row, err := readNode(sysfs, n, numbers)
		if err != nil {
			return nil, fmt.Errorf("numa: node %d: %w", n, err)
		}
		if len(cpus) == 0 {
			continue // memory alone
		}
		for _, cpu := range cpus {
			m.cpuCPT[cpu] = len(m.nodes)
		}
		rows[n] = row
		m.nodes = append(m.nodes, n)
	}
	if len(m.nodes) == 0 {
		m.nodes, m.distances = []int{0}, [][]uint32{{LocalDistance}}
		return m, nil
	}
	for _, a := range m.nodes {
		var row []uint32
		for _, b := range m.nodes {
			row = append(row, rows[a][b])
		}
		m.distances = append(m.distances, row)
	}
	return m, nil
}

// CPTs is how many CPTs there are.
func (m *Machine) CPTs() int { return len(m.nodes) }

// CPT is one CPU partition.
type CPT struct {
	// Node is the number of its NUMA node.
	Node int
	// CPUs are its processors, in order; nil if the machine does not say.
	CPUs []int
	// Distances are those to all CPTs, itself included.
	Distances []uint32
}

// Layout returns the CPTs in order. The caller owns them.
func (m *Machine) Layout() []CPT {
	all := make([]CPT, len(m.nodes))
	for k, n := range m.nodes {
		all[k] = CPT{Node: n, Distances: slices.Clone(m.distances[k])}
	}
	for _, cpu := range slices.Sorted(maps.Keys(m.cpuCPT)) {
		at := &all[m.cpuCPT[cpu]]
		at.CPUs = append(at.CPUs, cpu)
	}
	return all
}

// Distances are those between the CPTs, nil if there is but one.
func (m *Machine) Distances() *selection.Distances {
	if len(m.nodes) < 2 {
		return nil
	}
	return selection.NewDistances(m.distances)
}

// OfCPU is the CPT of a processor, selection.UnknownCPT if it has none.
func (m *Machine) OfCPU(cpu int) int {
	if c, ok := m.cpuCPT[cpu]; ok {
		return c
	}
	return selection.UnknownCPT
}

// OfDevice is the CPT that a network or RDMA device is next to,
// selection.UnknownCPT if the machine does not tell. A device on top of others
// is where they are, if they are all in one place.
func (m *Machine) OfDevice(name string) int {
	if m.root == nil || name == "" || strings.Contains(name, "/") {
		return selection.UnknownCPT
	}
	return m.ofDevice(name, maxStack)
}

// maxStack is how many devices are followed that lie on top of each other, as a
// VLAN on a bond on ports.
const maxStack = 4

func (m *Machine) ofDevice(name string, depth int) int {
	for _, class := range []string{netDir, verbsDir} {
		text, err := fs.ReadFile(m.root, path.Join(class, name, "device", "numa_node"))
		if err != nil {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return selection.UnknownCPT
		}
		// A node without processors is no CPT: unknown, too.
		return slices.Index(m.nodes, n)
	}
	if depth == 0 {
		return selection.UnknownCPT
	}
	entries, err := fs.ReadDir(m.root, path.Join(netDir, name))
	if err != nil {
		return selection.UnknownCPT
	}
	found := selection.UnknownCPT
	for _, e := range entries {
		lower, ok := strings.CutPrefix(e.Name(), "lower_")
		if !ok {
			continue
		}
		cpt := m.ofDevice(lower, depth-1)
		if cpt == selection.UnknownCPT || found != selection.UnknownCPT && cpt != found {
			return selection.UnknownCPT
		}
		found = cpt
	}
	return found
}

// nodeNumbers lists the nodes that there are.
func nodeNumbers(sysfs fs.FS) ([]int, error) {
	entries, err := fs.ReadDir(sysfs, nodesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	numbers := make(map[int]struct{})
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), "node"); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 {
				numbers[n] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(numbers)), nil
}

// readNode reads the processors of a node, and its distances to all.
func readNode(sysfs fs.FS, n int, numbers []int) (cpus []int, row map[int]uint32, err error) {
	dir := path.Join(nodesDir, "node"+strconv.Itoa(n))
	text, err := fs.ReadFile(sysfs, path.Join(dir, "cpulist"))
	if err != nil {
		return nil, nil, err
	}
	if cpus, err = parseCPUs(strings.TrimSpace(string(text))); err != nil {
		return nil, nil, fmt.Errorf("cpulist: %w", err)
	}
	if text, err = fs.ReadFile(sysfs, path.Join(dir, "distance")); err != nil {
		return nil, nil, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != len(numbers) {
		return nil, nil, fmt.Errorf("distance: %d numbers for %d nodes", len(fields), len(numbers))
	}
	row = make(map[int]uint32)
	for k, f := range fields {
		v, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("distance: %w", err)
		}
		row[numbers[k]] = uint32(v)
	}
	return cpus, row, nil
}

// maxCPU bounds what a list may name.
const maxCPU = 1 << 16

// parseCPUs reads a list like "0-3,8". It may be empty.
func parseCPUs(s string) ([]int, error) {
	var cpus []int
	if s == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.Atoi(first)
		hi, errHi := strconv.Atoi(last)
		if errLo != nil || errHi != nil || lo < 0 || hi < lo || hi >= maxCPU {
			return nil, fmt.Errorf("%q is no range of processors", item)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
