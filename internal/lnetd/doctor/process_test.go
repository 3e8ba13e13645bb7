package doctor

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// procDir returns a directory with the files of a process in /proc.
func procDir(t *testing.T, caps string) process {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "fd", "0"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"limits": "Limit                     Soft Limit           Hard Limit           Units\n" +
			"Max open files            1024                 524288               files\n" +
			"Max locked memory         8388608              8388608              bytes\n",
		"status": "Name:\tlnetd\nVmLck:\t       0 kB\nVmPin:\t      16 kB\nCapEff:\t" + caps + "\n",
		"stat":   "7 (a) b) c) S 1" + strings.Repeat(" 0", 17) + " 250 0 0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return process(dir)
}

// The limits of a process and its start are those in /proc. Locked memory has no limit for a process with
// CAP_IPC_LOCK.
func TestProcess(t *testing.T) {
	for caps, want := range map[string]diagnosis.Host{
		"0000000000000000": {Files: diagnosis.Files{Open: 1, Limit: 1024}, Locked: 16384, Lockable: 8388608},
		"0000000000004000": {Files: diagnosis.Files{Open: 1, Limit: 1024}},
	} {
		var h diagnosis.Host
		if err := procDir(t, caps).examine(&h); err != nil {
			t.Fatal(err)
		}
		if h.Files != want.Files || h.Locked != want.Locked || h.Lockable != want.Lockable || h.Started.IsZero() {
			t.Errorf("%s: %+v", caps, h)
		}
	}
}

// A process whose files are missing, or have another form, is not examined.
func TestStrangeProcess(t *testing.T) {
	for _, name := range []string{"fd", "limits", "status", "stat"} {
		p := procDir(t, "0")
		if err := os.RemoveAll(filepath.Join(string(p), name)); err != nil {
			t.Fatal(err)
		}
		if err := p.examine(&diagnosis.Host{}); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
	for _, stat := range []string{"", "7 (lnetd) S 1", "7 (lnetd)" + strings.Repeat(" x", 30)} {
		p := procDir(t, "0")
		if err := os.WriteFile(filepath.Join(string(p), "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.started(); err == nil {
			t.Errorf("no error for %q", stat)
		}
	}
}

// Only replies of the host with the address count as answers.
func TestARPAnswer(t *testing.T) {
	address := netip.MustParseAddr("10.0.0.2")
	reply := func(hardwareType, operation byte, from string) []byte {
		b := []byte{0, hardwareType, 8, 0, 6, 4, 0, operation, 2, 0, 0, 0, 0, 7}
		return append(append(b, netip.MustParseAddr(from).AsSlice()...), make([]byte, 10)...)
	}
	for k, c := range []struct {
		packet []byte
		want   string
	}{
		{reply(1, 2, "10.0.0.2"), "02:00:00:00:00:07"},
		{reply(1, 1, "10.0.0.2"), ""}, // a request
		{reply(1, 2, "10.0.0.3"), ""},
		{reply(32, 2, "10.0.0.2"), ""},     // InfiniBand
		{reply(1, 2, "10.0.0.2")[:27], ""}, // too short
		{nil, ""},
	} {
		if got := arpAnswer(c.packet, address); got != c.want {
			t.Errorf("%d: %q, want %q", k, got, c.want)
		}
	}
}

// An interface that does not exist, or is not an Ethernet interface, has no answers.
func TestClaimsWithoutEthernet(t *testing.T) {
	for device, address := range map[string]string{"lo": "127.0.0.1", "none0": "10.0.0.1"} {
		if found, err := claims(device, netip.Addr{}, netip.MustParseAddr(address)); err == nil || found != nil {
			t.Errorf("%s: %v, %v", device, found, err)
		}
	}
	if s := skipARP(nid(t, "10.0.0.1@tcp"), fmt.Errorf("socket: %w", os.ErrPermission)); !strings.Contains(s.Reason, "socket") {
		t.Errorf("%+v", s)
	}
}
