package doctor

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

const (
	// arpTimeout is how long hosts may take to answer an ARP request.
	arpTimeout = 300 * time.Millisecond
	// arpTries is the number of requests, because one may be lost.
	arpTries = 2
)

// Layout of ARP packets for IPv4 over Ethernet (RFC 826):
//
//	 0 hardware type (1)   2 protocol type (IPv4)   4 lengths (6, 4)   6 operation
//	 8 hardware address of the sender              14 address of the sender
//	18 hardware address of the target              24 address of the target
const (
	arpLength        = 28
	arpOperation     = 6
	arpFromHardware  = 8
	arpFrom          = 14
	arpTo            = 24
	arpRequest       = 1
	arpReply         = 2
	hardwareEthernet = 1
	hardwareLength   = 6
)

var errNotEthernet = errors.New("the address is not an IPv4 address on an Ethernet interface of this host")

// claims returns the other hosts that have an address on the network of an interface, according to their answers to
// ARP requests. If the address is one of this host's, from must be invalid, which is what a host sends that only
// wants to find out whether the address is in use (RFC 5227). It blocks for arpTries times arpTimeout.
func claims(device string, from, address netip.Addr) ([]diagnosis.Claim, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	if !address.Is4() || len(i.HardwareAddr) != hardwareLength || i.Flags&net.FlagUp == 0 {
		return nil, errNotEthernet
	}
	f, err := arpSocket(i)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	own := ownHardware()
	var found []diagnosis.Claim
	for range arpTries {
		if err := askARP(f, i, from, address); err != nil {
			return nil, err
		}
		if err := f.SetReadDeadline(time.Now().Add(arpTimeout)); err != nil {
			return nil, err
		}
		for b := make([]byte, arpLength); ; {
			n, err := f.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return nil, err
			}
			hardware := arpAnswer(b[:n], address)
			if hardware == "" || slices.Contains(own, hardware) ||
				slices.ContainsFunc(found, func(c diagnosis.Claim) bool { return c.Hardware == hardware }) {
				continue
			}
			found = append(found, diagnosis.Claim{Interface: device, Address: address, Hardware: hardware})
		}
	}
	return found, nil
}

// arpSocket returns a socket for the ARP packets of an interface. It needs the capability CAP_NET_RAW.
func arpSocket(i *net.Interface) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(bigEndian(unix.ETH_P_ARP)))
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "arp")
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: i.Index}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), f.Close())
	}
	return f, nil
}

// bigEndian returns a number whose bytes in memory are those of n in network order.
func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// askARP broadcasts the question which host has an address.
func askARP(f *os.File, i *net.Interface, from, address netip.Addr) error {
	b := binary.BigEndian.AppendUint16(nil, hardwareEthernet)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, hardwareLength, net.IPv4len)
	b = binary.BigEndian.AppendUint16(b, arpRequest)
	b = append(b, i.HardwareAddr...)
	sender := make([]byte, net.IPv4len)
	if from.Is4() {
		sender = from.AsSlice()
	}
	b = append(b, sender...)
	b = append(b, make([]byte, hardwareLength)...)
	b = append(b, address.AsSlice()...)
	to := unix.SockaddrLinklayer{
		Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: i.Index, Halen: hardwareLength,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = unix.Sendto(int(fd), b, 0, &to) })
	return errors.Join(err, os.NewSyscallError("sendto", sent))
}

// arpAnswer returns the hardware address in an ARP reply from the host with the address. It returns "" for other
// packets.
func arpAnswer(b []byte, address netip.Addr) string {
	if len(b) < arpLength || binary.BigEndian.Uint16(b) != hardwareEthernet || binary.BigEndian.Uint16(b[arpOperation:]) != arpReply {
		return ""
	}
	if netip.AddrFrom4([4]byte(b[arpFrom:])) != address {
		return ""
	}
	return net.HardwareAddr(b[arpFromHardware:arpFrom]).String()
}

// ownHardware returns the hardware addresses of this host's interfaces.
func ownHardware() (own []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for k := range all {
		own = append(own, all[k].HardwareAddr.String())
	}
	return own
}
