package socklnd

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestListenersHaveTheBacklogAskedFor reads the backlog back from the kernel.
func TestListenersHaveTheBacklogAskedFor(t *testing.T) {
	for _, backlog := range []int{1, 7, 127} {
		l, err := HostNetwork().Listen(netip.AddrPortFrom(newAddress(), testPort), backlog)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := l.(*hostListener).l.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = control(raw, func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil && int(info.Sacked) != backlog { // for a listener, tcpi_sacked is the backlog
				t.Errorf("backlog %d, want %d", info.Sacked, backlog)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestConfiguredOptionsOfBothEnds checks that TCP keepalive is enabled only on request, whatever
// Go's default is, and that the other options are set (socklnd 16).
//
// socklnd 16 (1)
func TestConfiguredOptionsOfBothEnds(t *testing.T) {
	at := netip.AddrPortFrom(newAddress(), testPort)
	l, err := HostNetwork().Listen(at, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for name, c := range map[string]struct {
		options StreamOptions
		want    map[[2]int]int
	}{
		"nothing": {StreamOptions{TOS: -1}, map[[2]int]int{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE}: 0,
			{unix.IPPROTO_TCP, unix.TCP_NODELAY}: 0,
			{unix.IPPROTO_IP, unix.IP_TOS}:       0,
		}},
		"a send buffer": {StreamOptions{SendBuffer: 65536, TOS: -1}, map[[2]int]int{
			{unix.SOL_SOCKET, unix.SO_SNDBUF}: 2 * 65536, // Linux doubles the value
		}},
		"no probes": {StreamOptions{KeepaliveIdle: time.Second, KeepaliveInterval: time.Second, TOS: -1}, map[[2]int]int{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE}: 0,
		}},
		"all": {StreamOptions{NoDelay: true, KeepaliveIdle: 30 * time.Second, KeepaliveInterval: 5 * time.Second, KeepaliveCount: 5, TOS: 0x20}, map[[2]int]int{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE}:   1,
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}:  30,
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 5,
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}:   5,
			{unix.IPPROTO_TCP, unix.TCP_NODELAY}:   1,
			{unix.IPPROTO_IP, unix.IP_TOS}:         0x20,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			active, err := HostNetwork().Dial(context.Background(), netip.AddrPortFrom(newAddress(), 0), at)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = active.Close() }()
			passive, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = passive.Close() }()
			for end, s := range map[string]Stream{"active": active, "passive": passive} {
				if err := s.Configure(c.options); err != nil {
					t.Fatalf("%s: %v", end, err)
				}
				for option, want := range c.want {
					if got := getOption(t, s.(*hostStream).raw, option[0], option[1]); got != want {
						t.Errorf("%s: option %v is %d, want %d", end, option, got, want)
					}
				}
			}
		})
	}
}

// TestSendBufferWithinHost: given a stream over the loopback device, when no size of its send buffer is configured, then
// it is loopbackBuffer, or as much of that as the kernel permits.
//
// socklnd 16 (1)
func TestSendBufferWithinHost(t *testing.T) {
	for _, local := range []netip.Addr{newAddress(), netip.IPv6Loopback()} {
		l, err := HostNetwork().Listen(netip.AddrPortFrom(local, 0), 1)
		if err != nil {
			t.Logf("%s: %v", local, err) // a host without IPv6
			continue
		}
		size := func(buffer int) int {
			s, err := HostNetwork().Dial(context.Background(), netip.AddrPortFrom(local, 0), l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if err := s.Configure(StreamOptions{SendBuffer: buffer, TOS: -1}); err != nil {
				t.Error(err)
			}
			return getOption(t, s.(*hostStream).raw, unix.SOL_SOCKET, unix.SO_SNDBUF)
		}
		if got, want := size(0), size(loopbackBuffer); got != want {
			t.Errorf("%s: send buffer of %d bytes, want %d", local, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func getOption(t *testing.T, raw syscall.RawConn, level, name int) int {
	t.Helper()
	value := 0
	err := control(raw, func(fd int) (err error) {
		value, err = unix.GetsockoptInt(fd, level, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}
