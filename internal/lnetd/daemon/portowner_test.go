package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
)

// procNet returns /proc/net/tcp with the given sockets: address, state, uid, inode.
func procNet(sockets ...string) string {
	text := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	for i, s := range sockets {
		f := strings.Fields(s)
		text += fmt.Sprintf("%4d: %s 0200007F:03FF %s 00000000:00000000 00:00000000 00000000 %5s 0 %s 1 0000000000000000 100 0 0 10 0\n",
			i, procAddr(netip.MustParseAddrPort(f[0])), f[1], f[2], f[3])
	}
	return text + "nonsense\n"
}

// procAddr formats an address as /proc does: words in host byte order.
func procAddr(a netip.AddrPort) string {
	var s string
	for w := range slices.Chunk(a.Addr().AsSlice(), 4) {
		s += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(w))
	}
	return fmt.Sprintf("%s:%04X", s, a.Port())
}

func TestListeners(t *testing.T) {
	got := listeners(strings.NewReader(procNet(
		"127.0.0.1:8080 0A 1000 4711",
		"0.0.0.0:988 0A 0 4712",
		"127.0.0.1:988 01 0 4713",
		"[::ffff:127.0.0.1]:8081 0A 7 4714",
		"[2001:db8::1]:988 0A 8 4715",
	)))
	want := []listening{
		{netip.MustParseAddrPort("127.0.0.1:8080"), 1000, "4711"},
		{netip.MustParseAddrPort("0.0.0.0:988"), 0, "4712"},
		{netip.MustParseAddrPort("[::ffff:127.0.0.1]:8081"), 7, "4714"},
		{netip.MustParseAddrPort("[2001:db8::1]:988"), 8, "4715"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(listening{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestConflicts(t *testing.T) {
	tests := []struct {
		have, want string
		conflict   bool
	}{
		{"127.0.0.1:988", "127.0.0.1:988", true},
		{"127.0.0.1:988", "127.0.0.1:989", false},
		{"127.0.0.1:988", "127.0.0.2:988", false},
		{"0.0.0.0:988", "127.0.0.2:988", true},
		{"[::]:988", "127.0.0.2:988", true},
		{"127.0.0.2:988", "0.0.0.0:988", true},
		{"[::ffff:127.0.0.1]:988", "127.0.0.1:988", true},
	}
	for _, tt := range tests {
		if got := conflicts(netip.MustParseAddrPort(tt.have), netip.MustParseAddrPort(tt.want)); got != tt.conflict {
			t.Errorf("%s, %s: %v", tt.have, tt.want, got)
		}
	}
}

// A listener of this process is found and named.
func TestPortOwnerIsThisProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	got := portOwner("/proc", at)
	if !strings.HasPrefix(got, fmt.Sprintf("it belongs to pid %d, uid %d, ", os.Getpid(), os.Getuid())) || !strings.Contains(got, "daemon.test") {
		t.Errorf("owner: %s", got)
	}
	_ = l.Close()
	if got := portOwner("/proc", at); got != "the process that listens there is not visible from here" {
		t.Errorf("owner of a free port: %s", got)
	}
}

// The remedy for a port that is in use explains how to run besides the kernel's LNet, and the
// disadvantage of another port.
func TestPortInUseRemedy(t *testing.T) {
	err := tcpExplain(&lnd.ListenError{Addr: netip.MustParseAddrPort("127.0.0.1:988"), Err: syscall.EADDRINUSE})
	var fault *api.Fault
	if !errors.As(err, &fault) || fault.Code != api.CodePortInUse {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"--net", "network namespace", "kernel nodes cannot connect to it"} {
		if !strings.Contains(fault.Remedy, want) {
			t.Errorf("remedy %q lacks %q", fault.Remedy, want)
		}
	}
}
