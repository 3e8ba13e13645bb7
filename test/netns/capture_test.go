package netns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// sniffer records the packets of a device, as tcpdump does. The kernel queues each packet at its socket when the device
// sends or receives it.
type sniffer struct{ fd int }

func newSniffer(t *testing.T, h *host, device string) *sniffer {
	t.Helper()
	s := &sniffer{}
	err := namespace.Do(h.name, func() (err error) {
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network byte order
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		i, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s.fd) })
	return s
}

// file writes the packets so far to a pcap file and returns its path.
func (s *sniffer) file(t *testing.T, dir string) string {
	t.Helper()
	le := binary.LittleEndian
	var out []byte
	out = le.AppendUint32(out, 0xa1b2c3d4)
	out = le.AppendUint32(out, 2|4<<16)
	out = le.AppendUint64(out, 0)
	out = le.AppendUint32(out, 1<<18)
	out = le.AppendUint32(out, 1) // Ethernet
	packet := make([]byte, 1<<18)
	for {
		n, _, err := unix.Recvfrom(s.fd, packet, 0)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out = le.AppendUint64(out, 0)
		out = le.AppendUint32(le.AppendUint32(out, uint32(n)), uint32(n))
		out = append(out, packet[:n]...)
	}
	path := filepath.Join(dir, "wire.pcap")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// decoded returns the LNet messages in a capture file as tshark decodes them with our dissector, sorted.
func decoded(t *testing.T, path string) []string {
	t.Helper()
	lua, err := filepath.Abs("../../deploy/wireshark/lnet.lua")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	fields := []string{"type", "src_nid", "dest_nid", "src_pid", "dest_pid", "payload_length", "interface_cookie", "object_cookie"}
	args := []string{"-X", "lua_script:" + lua, "-r", path, "-Y", "lnetmsg", "-T", "fields", "-o", "tcp.reassemble_out_of_order:TRUE"}
	for _, f := range fields {
		args = append(args, "-e", "lnetmsg."+f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, &stderr)
	}
	var messages []string
	for line := range strings.Lines(string(out)) {
		var columns [][]string // a segment may have several messages
		for _, c := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			columns = append(columns, strings.Split(c, ","))
		}
		for k := range columns[0] {
			var m []string
			for _, c := range columns {
				if len(c) != len(columns[0]) {
					t.Fatalf("tshark: %q", line)
				}
				m = append(m, c[k])
			}
			messages = append(messages, strings.Join(m, " "))
		}
	}
	slices.Sort(messages)
	return messages
}

// Given two nodes, when they discover, ping and test each other, then a capture inside lnetd and the packets on the
// wire decode to the same messages.
func TestCaptureAgreesWithTheWire(t *testing.T) {
	testenv.NeedCommand(t, "tshark", "tshark")
	a, b := pair(t)
	da := a.start(t)
	b.start(t)
	c := client.New(da.Socket)
	defer c.Close()
	wire := newSniffer(t, a, "eth0")
	s, err := c.Capture(t.Context(), api.CaptureFilter{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	file := filepath.Join(t.TempDir(), "inside.pcapng")
	inside, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := inside.ReadFrom(s)
		copied <- errors.Join(err, inside.Close())
	}()
	if _, err := c.Discover(t.Context(), api.DiscoverRequest{NIDs: []string{b.nid()}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		da.Must(t, "ping", b.nid())
	}
	da.Stop(t) // ends the capture
	if err := <-copied; err == nil || !strings.Contains(err.Error(), "lnetd stops") {
		t.Errorf("the capture ends with %v", err)
	}
	got, want := decoded(t, file), decoded(t, wire.file(t, t.TempDir()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on the wire (-) and inside lnetd (+):\n%s", diff)
	}
	if len(got) < 40 {
		t.Errorf("only %d messages", len(got))
	}
}
