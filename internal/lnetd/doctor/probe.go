package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

const (
	// probePort is the first port of traceroute, on which usually nothing listens: the host of the peer
	// answers to packets with "port unreachable".
	probePort = 33434
	// smallBytes is the size of a small IP packet.
	smallBytes = 64
	// smallTries and largeTries are the numbers of packets that are sent until one is answered. Hosts limit
	// the rate of their answers, Linux to a burst of 6.
	smallTries, largeTries = 2, 3
	// packetTimeout is the maximum time to wait for the answer to a packet.
	packetTimeout = time.Second
)

// probe finds out with the means of IP how the host at an address reacts. It connects to the address and closes the
// connection, and sends small and large UDP packets. The local address is from.
func probe(ctx context.Context, from netip.Addr, at netip.AddrPort, timeout time.Duration) *diagnosis.TCP {
	t := &diagnosis.TCP{At: at}
	d := net.Dialer{Timeout: timeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	c, err := d.DialContext(ctx, "tcp", at.String())
	t.Connect = reply(err)
	if err != nil {
		t.Detail = detail(err)
	} else {
		t.LargeBytes = packetBytes(c)
		_ = c.Close()
	}
	t.Small = send(ctx, from, at.Addr(), smallBytes, smallTries)
	if t.Small != diagnosis.Answered || t.LargeBytes == 0 {
		return t
	}
	t.Large = send(ctx, from, at.Addr(), t.LargeBytes, largeTries)
	if t.Large == diagnosis.Silent && send(ctx, from, at.Addr(), smallBytes, 1) != diagnosis.Answered {
		t.Large = diagnosis.Untried // the host may limit the rate of its answers
	}
	return t
}

// reply classifies the error of a probe.
func reply(err error) diagnosis.Reply {
	var timeout net.Error
	switch {
	case err == nil:
		return diagnosis.Answered
	case errors.Is(err, syscall.ECONNREFUSED):
		return diagnosis.Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return diagnosis.NoPath
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return diagnosis.Silent
	}
	return diagnosis.Untried
}

// detail returns the text of an error without the addresses.
func detail(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return api.Strerror(errno)
	case reply(err) == diagnosis.Silent:
		return "no answer in time"
	}
	return err.Error()
}

// Sizes of headers in bytes.
const (
	ipv4Header, ipv6Header = 20, 40
	tcpHeader, udpHeader   = 20, 8
	// timestampsOption is the size of TCP's option for timestamps, with which every segment has one.
	timestampsOption = 12
	// hasTimestamps is a flag of the options in tcp_info.
	hasTimestamps = 1
)

// packetBytes returns the size of the IP packets that TCP sends on the connection if it has enough data. It returns
// 0 if the size is not known.
func packetBytes(c net.Conn) (n int) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		n = int(info.Snd_mss) + tcpHeader + ipHeader(tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
		if info.Options&hasTimestamps != 0 {
			n += timestampsOption
		}
	})
	return n
}

func ipHeader(a netip.Addr) int {
	if a.Unmap().Is4() {
		return ipv4Header
	}
	return ipv6Header
}

// send sends IP packets of a size to an address until one is answered, at most tries times. Packets are not
// fragmented.
func send(ctx context.Context, from, to netip.Addr, size, tries int) diagnosis.Reply {
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Control: neverFragment}
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(to, probePort).String())
	if err != nil {
		return diagnosis.Untried
	}
	defer func() { _ = c.Close() }()
	payload := make([]byte, max(size-ipHeader(to)-udpHeader, 0))
	last := diagnosis.Untried
	for range tries {
		if ctx.Err() != nil {
			return diagnosis.Untried
		}
		if _, err = c.Write(payload); err == nil {
			_ = c.SetReadDeadline(time.Now().Add(packetTimeout))
			_, err = c.Read(make([]byte, 1))
		}
		switch last = reply(err); {
		case last == diagnosis.Refused: // "port unreachable": the packet has arrived
			return diagnosis.Answered
		case last != diagnosis.Silent:
			return last
		}
	}
	return last
}

// neverFragment makes the kernel send packets of any size up to that of the interface, unfragmented, whatever it
// knows about the path.
func neverFragment(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if network == "udp6" {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
			return
		}
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	})
	return errors.Join(err, failed)
}
