package hostnet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sysfs creates a tree of files for a test. A value of "" is an entry that cannot be read.
func sysfs(t *testing.T, files map[string]string) *RDMA {
	t.Helper()
	s := &RDMA{class: t.TempDir()}
	s.ipoib = func(netdev string) (string, error) {
		if device, ok := strings.CutPrefix(netdev, "ib on "); ok {
			return device, nil
		}
		return "", os.ErrNotExist
	}
	s.counters = func(device string, port int) map[string]uint64 {
		return map[string]uint64{device: uint64(port)}
	}
	for name, value := range files {
		file := filepath.Join(s.class, name)
		var err error
		if value == "" {
			err = os.MkdirAll(file, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			err = os.WriteFile(file, []byte(value+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Devices are found by any of the network devices that they serve, although most entries of a
// table are empty. The counters of each of their ports are read.
func TestRDMADevices(t *testing.T) {
	s := sysfs(t, map[string]string{
		"mlx5_0/ports/1/gid_attrs/ndevs/0": "",
		"mlx5_0/ports/1/gid_attrs/ndevs/1": "eth0",
		"mlx5_0/ports/1/gid_attrs/ndevs/2": "eth0",
		"mlx5_0/ports/1/gid_attrs/ndevs/9": "eth0.5",
		"mlx5_0/ports/2/gid_attrs/ndevs/0": "eth1",
		"mlx5_0/ports/power":               "on",
		"rxe0/ports/1/gid_attrs/ndevs/0":   "bond0",
		"siw0/ports/1/state":               "4: ACTIVE",
	})
	want := []RDMADevice{{"mlx5_0", []string{"eth0", "eth0.5", "eth1"}}, {"rxe0", []string{"bond0"}}, {Name: "siw0"}}
	if diff := cmp.Diff(want, s.Devices()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	for netdev, want := range map[string]string{"eth0": "mlx5_0", "eth0.5": "mlx5_0", "eth1": "mlx5_0", "bond0": "rxe0", "ib on siw0": "siw0", "eth9": ""} {
		for range 2 {
			if got := s.deviceOf(netdev); got != want {
				t.Errorf("%s is on %q, want %q", netdev, got, want)
			}
		}
	}
	ports := []RDMAPort{
		{Device: "mlx5_0", Port: "1", Counters: map[string]uint64{"mlx5_0": 1}},
		{Device: "mlx5_0", Port: "2", Counters: map[string]uint64{"mlx5_0": 2}},
	}
	if diff := cmp.Diff(ports, s.Ports([]string{"eth1", "eth0", "eth9"})); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if got := sysfs(t, nil).Devices(); len(got) != 0 {
		t.Errorf("without RDMA: %v", got)
	}
}

// Finding a known network device again reads only one file. A device that moved is found in its
// new place, and one that was removed is not found.
func TestRDMAFollowsDevices(t *testing.T) {
	const first, second = "rxe0/ports/1/gid_attrs/ndevs/0", "rxe1/ports/1/gid_attrs/ndevs/7"
	s := sysfs(t, map[string]string{first: "eth0", second: "eth1"})
	write := func(name, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.class, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(netdev, device, file string) {
		t.Helper()
		if got := s.deviceOf(netdev); got != device || file != "" && s.found[netdev].file != filepath.Join(s.class, file) {
			t.Errorf("%s is on %q (%s), want %q (%s)", netdev, got, s.found[netdev].file, device, file)
		}
	}
	want("eth0", "rxe0", first)
	write(second, "eth0") // it would be found here too, but this is not read
	want("eth0", "rxe0", first)
	write(first, "eth1")
	want("eth0", "rxe1", second)
	write(second, "eth1")
	want("eth0", "", "")
	write(first, "eth0")
	want("eth0", "rxe0", first)
}
