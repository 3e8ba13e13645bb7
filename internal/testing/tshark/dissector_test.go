//go:build !race

package tshark

import (
	"bytes"
	"encoding/xml"
	"hash/crc32"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// script is the dissector for Wireshark that lnetd has.
const script = "../../../deploy/wireshark/lnet.lua"

// protocols are the protocols of script.
var protocols = []string{"lnetacceptor", "socklnd", "lnetmsg", "lnetping", "o2iblnd"}

// item is what the dissector shows for one protocol in a packet: lines "field=value" in the order of the packet.
type item []string

// shown is a packet in which the dissector found something.
type shown struct {
	// number is the number of the packet, starting at 1.
	number int
	// from and to are the addresses of a TCP segment. They are zero for other packets.
	from, to netip.AddrPort
	items    []item
}

// field is a field in tshark's PDML output, which may contain fields.
type field struct {
	Name   string  `xml:"name,attr"`
	Show   string  `xml:"show,attr"`
	Value  string  `xml:"value,attr"`
	Size   int     `xml:"size,attr"`
	Fields []field `xml:",any"`
}

// runScript runs tshark with the dissector on a capture file and returns tshark's output. It fails the test if Lua
// or tshark report an error.
func runScript(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	testenv.NeedCommand(t, "tshark", "tshark")
	home := t.TempDir()
	lua, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command("tshark", append([]string{"-X", "lua_script:" + lua, "-r", path}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || strings.Contains(strings.ToLower(stderr.String()), "lua") {
		t.Fatalf("tshark %v: %v\n%s", args, err, &stderr)
	}
	return out
}

// show decodes a capture file with the dissector. It fails the test if the dissector finds something malformed, or if
// Lua reports an error.
func show(t *testing.T, path string, args ...string) []shown {
	t.Helper()
	packets, out := showAnything(t, path, args...)
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte(`malformed"`)) {
			t.Errorf("%s: malformed: %s", filepath.Base(path), line)
		}
	}
	return packets
}

// showAnything is like show for a capture file that may be malformed. It also returns tshark's output.
func showAnything(t *testing.T, path string, args ...string) ([]shown, []byte) {
	t.Helper()
	all := slices.Concat(protocols, []string{"ip", "ipv6", "tcp"})
	out := runScript(t, path, append([]string{"-T", "pdml", "-J", strings.Join(all, " ")}, args...)...)
	var doc struct {
		Packets []struct {
			Protos []field `xml:"proto"`
		} `xml:"packet"`
	}
	if err := xml.Unmarshal(out, &doc); err != nil {
		t.Fatalf("output of tshark: %v", err)
	}
	if at := bytes.Index(out, []byte("Lua Error")); at >= 0 {
		t.Errorf("%s: %.200s", filepath.Base(path), out[at:])
	}
	var packets []shown
	for _, p := range doc.Packets {
		var s shown
		outer := map[string]string{}
		for _, proto := range p.Protos {
			if slices.Contains(protocols, proto.Name) {
				s.items = append(s.items, proto.lines(nil))
				continue
			}
			for _, f := range proto.Fields {
				if _, inner := outer[f.Name]; !inner {
					outer[f.Name] = f.Show
				}
			}
		}
		if len(s.items) == 0 {
			continue
		}
		s.number, _ = strconv.Atoi(outer["num"])
		s.from, s.to = address(outer, "src"), address(outer, "dst")
		packets = append(packets, s)
	}
	return packets, out
}

// address returns one of the two addresses of a TCP segment.
func address(fields map[string]string, side string) netip.AddrPort {
	addr, err := netip.ParseAddr(fields["ip."+side] + fields["ipv6."+side])
	port, err2 := strconv.ParseUint(fields["tcp."+side+"port"], 10, 16)
	if err != nil || err2 != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, uint16(port))
}

// lines appends the lines of f's fields to to. A payload has its length and checksum as its value.
func (f *field) lines(to item) item {
	for _, c := range f.Fields {
		switch {
		case c.Name == "lnetmsg.payload":
			sum := crc32.ChecksumIEEE([]byte(strings.ReplaceAll(c.Value, ":", "")))
			to = append(to, payloadLine(c.Size, sum))
		case c.Name == "lnetmsg.wmd" || c.Name == "" || strings.HasPrefix(c.Name, "_ws.lua.text"):
			to = c.lines(to) // a group of fields
		case strings.HasPrefix(c.Name, "_ws.expert"):
			to = append(to, "expert: "+c.expert())
		case strings.HasPrefix(c.Name, "_ws."):
		default:
			to = append(to, c.Name+"="+c.Show)
			to = c.lines(to)
		}
	}
	return to
}

// expert returns the message of an item with expert information.
func (f *field) expert() string {
	for _, c := range f.Fields {
		if c.Name == "_ws.expert.message" {
			return c.Show
		}
	}
	return ""
}

// recorded returns the path of an embedded recording.
func recorded(t *testing.T, name string) string {
	t.Helper()
	for _, pattern := range []string{name + ".pcap*", "*/" + name + ".pcap*"} {
		if found, _ := filepath.Glob("../recording/testdata/" + pattern); len(found) == 1 {
			return found[0]
		}
	}
	t.Fatalf("recording %s not found", name)
	return ""
}

// direction is one direction of a TCP connection.
type direction struct{ from, to netip.AddrPort }

// The dissector shows the same units in each recording of TCP, with the same values, as our decoders.
func TestDissectorOnRecordings(t *testing.T) {
	total := 0
	for _, name := range recording.Names() {
		t.Run(name, func(t *testing.T) {
			rec, err := recording.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			want := map[direction][]item{}
			var pings asked
			for _, c := range rec.Conversations {
				units, err := c.Units()
				if err != nil {
					t.Fatal(err)
				}
				for i := range units {
					pings.add(&units[i].Unit)
				}
			}
			units := 0
			for _, c := range rec.Conversations {
				for _, side := range []recording.Side{recording.Active, recording.Passive} {
					parsed, err := recording.Parse(c.Stream(side))
					if err != nil {
						t.Fatal(err)
					}
					units += len(parsed)
					d := direction{c.Addrs[side], c.Addrs[side.Other()]}
					for i := range parsed {
						want[d] = append(want[d], unitItems(t, &parsed[i], &pings)...)
					}
				}
			}
			got, others := map[direction][]item{}, 0
			for _, p := range show(t, recorded(t, name)) {
				d := direction{p.from, p.to}
				if want[d] == nil {
					others++ // of a connection that was opened before the recording began
					continue
				}
				got[d] = append(got[d], p.items...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("our decoding (-) and the dissector's (+):\n%s", diff)
			}
			total += units
			t.Logf("%d connections, %d units are equal; %d packets of other connections or RDMA", len(rec.Conversations), units, others)
		})
	}
	t.Logf("%d units", total)
}
