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

// Machine describes the CPTs of a machine. It is immutable and safe for concurrent use.
// The zero Machine has no CPTs and reports everything as unknown.
type Machine struct {
	// Pages returns the NUMA node of the page at each address, or a negative number for a
	// page that is not allocated yet. It exists for tests. If it is nil, the kernel is
	// queried.
	Pages func(addrs []uintptr) []int

	root fs.FS
	// nodes are the NUMA node numbers, indexed by CPT.
	nodes     []int
	cpuCPT    map[int]int
	distances [][]uint32
}

// LocalDistance is the distance of a CPT from itself on a machine that does not report
// distances.
const LocalDistance = 10

// Directories below the root of sysfs.
const (
	nodesDir = "devices/system/node"
	netDir   = "class/net"
	verbsDir = "class/infiniband"
)

// Read reads the layout from sysfs, which is os.DirFS("/sys") except in tests. If the
// kernel reports no NUMA nodes, the machine has one CPT, whose processors are unknown.
// Errors name the file.
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
			continue // memory only
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

// CPTs returns the number of CPTs.
func (m *Machine) CPTs() int { return len(m.nodes) }

// CPT is one CPU partition.
type CPT struct {
	// Node is the number of the NUMA node.
	Node int
	// CPUs are the processors in ascending order; nil if unknown.
	CPUs []int
	// Distances are the distances to all CPTs, including this one.
	Distances []uint32
}

// Layout returns the CPTs in order. The caller owns the result.
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

// Distances returns the distances between the CPTs, or nil if there are fewer than two.
func (m *Machine) Distances() *selection.Distances {
	if len(m.nodes) < 2 {
		return nil
	}
	return selection.NewDistances(m.distances)
}

// OfCPU returns the CPT of a processor, or selection.UnknownCPT if it is in no CPT.
func (m *Machine) OfCPU(cpu int) int {
	if c, ok := m.cpuCPT[cpu]; ok {
		return c
	}
	return selection.UnknownCPT
}

// OfDevice returns the CPT to which a network or RDMA device is attached. It returns
// selection.UnknownCPT if that is unknown. A device that is built on other devices, such
// as a bond, has their CPT if they all have the same one.
func (m *Machine) OfDevice(name string) int {
	if m.root == nil || name == "" || strings.Contains(name, "/") {
		return selection.UnknownCPT
	}
	return m.ofDevice(name, maxStack)
}

// maxStack is how many levels of devices built on other devices OfDevice follows. A VLAN
// on a bond has two.
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
		// Index returns -1, which is UnknownCPT, for a node without processors.
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

// nodeNumbers lists the numbers of the existing NUMA nodes.
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

// readNode reads the processors of the NUMA node n, and its distances to all nodes.
// numbers are the numbers of all nodes.
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

// maxCPU is the number above the largest processor number that is accepted in a list.
const maxCPU = 1 << 16

// parseCPUs parses a list of processors such as "0-3,8". The list may be empty.
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
			return nil, fmt.Errorf("%q is not a range of processors", item)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
