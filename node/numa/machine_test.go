package numa_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/node/numa"
	"github.com/lnetd/lnetd/selection"
)

// sysfs returns a tree of files with these contents, by path.
func sysfs(files ...string) fstest.MapFS {
	tree := make(fstest.MapFS)
	for k := 0; k < len(files); k += 2 {
		tree[files[k]] = &fstest.MapFile{Data: []byte(files[k+1] + "\n")}
	}
	return tree
}

// twoSockets has nodes 0 and 2 with processors, and node 1 with memory only.
var twoSockets = []string{
	"devices/system/node/node0/cpulist", "0-3,8", "devices/system/node/node0/distance", "10 17 21",
	"devices/system/node/node1/cpulist", "", "devices/system/node/node1/distance", "17 10 28",
	"devices/system/node/node2/cpulist", "4-7", "devices/system/node/node2/distance", "21 28 10",
	"devices/system/node/possible", "0-2",
	"class/net/eth0/device/numa_node", "0",
	"class/net/eth2/device/numa_node", "2",
	"class/net/pmem/device/numa_node", "1",
	"class/net/virt/device/numa_node", "-1",
	"class/net/odd/device/numa_node", "one",
	"class/infiniband/mlx5_0/device/numa_node", "2",
	"class/net/vlan/lower_bond/x", "", "class/net/bond/lower_eth2/x", "",
	"class/net/wide/lower_eth0/x", "", "class/net/wide/lower_eth2/x", "",
	"class/net/half/lower_eth0/x", "", "class/net/half/lower_virt/x", "",
	"class/net/ring/lower_ring/x", "",
	"class/net/dummy/mtu", "1500",
}

func read(t *testing.T, files ...string) *numa.Machine {
	t.Helper()
	m, err := numa.Read(sysfs(files...))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// selection 5.3 (4)
func TestMachine(t *testing.T) {
	m := read(t, twoSockets...)
	if m.CPTs() != 2 {
		t.Fatalf("%d CPTs", m.CPTs())
	}
	d := m.Distances()
	for _, c := range [][3]int{{0, 0, 10}, {0, 1, 21}, {1, 0, 21}, {1, 1, 10}, {selection.UnknownCPT, 1, 21}} {
		if got := d.Between(c[0], c[1]); got != uint32(c[2]) {
			t.Errorf("distance from %d to %d: %d", c[0], c[1], got)
		}
	}
	for cpu, want := range map[int]int{0: 0, 3: 0, 8: 0, 4: 1, 7: 1, 9: selection.UnknownCPT} {
		if got := m.OfCPU(cpu); got != want {
			t.Errorf("processor %d: CPT %d, want %d", cpu, got, want)
		}
	}
	for device, want := range map[string]int{
		"eth0": 0, "eth2": 1, "mlx5_0": 1, "vlan": 1,
		"pmem": -1, "virt": -1, "odd": -1, "wide": -1, "half": -1, "ring": -1, "dummy": -1, "none": -1, "": -1, "../eth0": -1,
	} {
		if got := m.OfDevice(device); got != want {
			t.Errorf("device %q: CPT %d, want %d", device, got, want)
		}
	}
}

// The table of distances is available for display, with the nodes and processors.
//
// lnetctl 11 (14)
func TestLayout(t *testing.T) {
	want := []numa.CPT{
		{Node: 0, CPUs: []int{0, 1, 2, 3, 8}, Distances: []uint32{10, 21}},
		{Node: 2, CPUs: []int{4, 5, 6, 7}, Distances: []uint32{21, 10}},
	}
	if diff := cmp.Diff(want, read(t, twoSockets...).Layout()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]numa.CPT{{Distances: []uint32{10}}}, read(t).Layout()); diff != "" {
		t.Errorf("without NUMA: %s", diff)
	}
}

// Memory has the CPT of its pages, if these are used and on one node.
//
// selection 5.3 (1)
func TestOfMemory(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodes   []int // of the pages, in order; the last one repeats
		bytes   int
		cpt     int
		settled bool
	}{
		{"on the second socket", []int{2}, 1 << 20, 1, true},
		{"on the first", []int{0}, 1, 0, true},
		{"partly used", []int{2, -1, 2}, 1 << 20, 1, false},
		{"not used", []int{-2}, 1 << 20, selection.UnknownCPT, false},
		{"on both", []int{0, 2}, 1 << 20, selection.UnknownCPT, true},
		{"on both, and partly used", []int{-2, 0, 2}, 1 << 20, selection.UnknownCPT, true},
		{"on a node without processors", []int{1}, 1 << 20, selection.UnknownCPT, true},
		{"none", []int{0}, 0, selection.UnknownCPT, true},
	} {
		m, b := read(t, twoSockets...), make([]byte, tt.bytes)
		m.Pages = func(addrs []uintptr) (nodes []int) {
			if len(addrs) > 16 || addrs[len(addrs)-1]-addrs[0] != uintptr(len(b)-1) {
				t.Errorf("%s: %d addresses, from %d to %d", tt.name, len(addrs), addrs[0], addrs[len(addrs)-1])
			}
			for k := range addrs {
				nodes = append(nodes, tt.nodes[min(k, len(tt.nodes)-1)])
			}
			return nodes
		}
		if cpt, settled := m.OfMemory(b); cpt != tt.cpt || settled != tt.settled {
			t.Errorf("%s: CPT %d, settled %v", tt.name, cpt, settled)
		}
	}
	one := read(t)
	one.Pages = func([]uintptr) []int { t.Error("the kernel is asked on a machine with one node"); return nil }
	if cpt, settled := one.OfMemory([]byte("x")); cpt != selection.UnknownCPT || !settled {
		t.Errorf("one node: CPT %d, settled %v", cpt, settled)
	}
}

func TestMachineWithoutNUMA(t *testing.T) {
	for name, m := range map[string]*numa.Machine{
		"no directory": read(t),
		"one node":     read(t, "devices/system/node/node0/cpulist", "0-1", "devices/system/node/node0/distance", "10"),
	} {
		if m.CPTs() != 1 || m.Distances() != nil || m.OfDevice("eth0") != selection.UnknownCPT {
			t.Errorf("%s: %d CPTs", name, m.CPTs())
		}
	}
	var none numa.Machine
	if none.CPTs() != 0 || none.Distances() != nil || none.OfCPU(0) != selection.UnknownCPT || none.OfDevice("eth0") != selection.UnknownCPT {
		t.Error("the zero Machine knows something")
	}
}

func TestReadRefuses(t *testing.T) {
	const list, distance = "devices/system/node/node0/cpulist", "devices/system/node/node0/distance"
	for why, files := range map[string][]string{
		"cpulist":                              {distance, "10"},
		"distance":                             {list, "0"},
		`cpulist: "3-1" is not a range`:        {list, "3-1", distance, "10"},
		`cpulist: "0-9999999" is not a range`:  {list, "0-9999999", distance, "10"},
		"node 0: distance: 2 numbers for 1":    {list, "0", distance, "10 20"},
		`distance: strconv.ParseUint: parsing`: {list, "0", distance, "ten"},
	} {
		if _, err := numa.Read(sysfs(files...)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// In sysfs, devices are symbolic links.
func TestReadThroughLinks(t *testing.T) {
	root := t.TempDir()
	for k := 0; k < len(twoSockets); k += 2 {
		file := filepath.Join(root, twoSockets[k])
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(twoSockets[k+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("eth2", filepath.Join(root, "class/net/linked")); err != nil {
		t.Fatal(err)
	}
	m, err := numa.Read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.OfDevice("linked"); got != 1 {
		t.Errorf("CPT %d", got)
	}
}
