package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tape writes a pcap file with packets one second apart.
type tape struct {
	order anyOrder
	link  linkType
	vlan  bool
	file  []byte
	n     uint32
}

type anyOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func newTape(order anyOrder, magic uint32, link linkType) *tape {
	t := &tape{order: order, link: link}
	t.file = order.AppendUint32(t.file, magic)
	t.file = append(t.file, make([]byte, 16)...)
	t.file = order.AppendUint32(t.file, uint32(link))
	return t
}

// packet writes a packet.
func (t *tape) packet(p []byte) {
	t.file = t.order.AppendUint32(t.file, 1000+t.n)
	t.file = t.order.AppendUint32(t.file, 5)
	t.file = t.order.AppendUint32(t.file, uint32(len(p)))
	t.file = t.order.AppendUint32(t.file, uint32(len(p)))
	t.file = append(t.file, p...)
	t.n++
}

func (t *tape) linkHeader(etherType uint16) []byte {
	be := binary.BigEndian
	switch t.link {
	case linkEthernet:
		b := make([]byte, 12)
		if t.vlan {
			b = be.AppendUint16(b, etherVLAN)
			b = be.AppendUint16(b, 7)
		}
		return be.AppendUint16(b, etherType)
	case linkCooked:
		return be.AppendUint16(make([]byte, 14), etherType)
	case linkCooked2:
		return append(be.AppendUint16(nil, etherType), make([]byte, 18)...)
	}
	return nil
}

var (
	left  = netip.MustParseAddrPort("10.0.0.1:1023")
	right = netip.MustParseAddrPort("10.0.0.2:988")
)

// segment writes a TCP segment.
func (t *tape) segment(from, to netip.AddrPort, flags byte, seq uint32, payload string) {
	be := binary.BigEndian
	var p []byte
	if from.Addr().Is4() {
		p = t.linkHeader(etherIPv4)
		p = append(p, 0x45, 0)
		p = be.AppendUint16(p, uint16(40+len(payload)))
		p = append(p, 0, 0, 0x40, 0, 64, protocolTCP, 0, 0)
	} else {
		p = t.linkHeader(etherIPv6)
		p = append(p, 0x60, 0, 0, 0)
		p = be.AppendUint16(p, uint16(20+len(payload)))
		p = append(p, protocolTCP, 64)
	}
	p = append(p, from.Addr().AsSlice()...)
	p = append(p, to.Addr().AsSlice()...)
	p = be.AppendUint16(p, from.Port())
	p = be.AppendUint16(p, to.Port())
	p = be.AppendUint32(p, seq)
	p = append(p, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0)
	p = append(p, payload...)
	if t.link == linkEthernet && len(p) < 60 {
		p = append(p, make([]byte, 60-len(p))...) // padding of a short frame
	}
	t.packet(p)
}

// opened returns a tape with an open connection from left to right. The first bytes of the two directions
// have the sequence numbers 1 and 501.
func opened() *tape {
	t := newTape(binary.LittleEndian, magicMicroseconds, linkEthernet)
	t.segment(left, right, flagSYN, 0, "")
	t.segment(right, left, flagSYN|flagACK, 500, "")
	return t
}

func readTape(t *testing.T, tp *tape) *Recording {
	t.Helper()
	rec, err := Read(bytes.NewReader(tp.file))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestReassembly(t *testing.T) {
	tests := []struct {
		name     string
		segments func(*tape)
		want     string
		end      End
	}{
		{"in order", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK, 4, "def")
		}, "abcdef", EndOpen},
		{"out of order", func(p *tape) {
			p.segment(left, right, flagACK, 7, "ghi")
			p.segment(left, right, flagACK, 4, "def")
			p.segment(left, right, flagACK, 1, "abc")
		}, "abcdefghi", EndOpen},
		{"sent again", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK, 4, "def")
			p.segment(left, right, flagACK, 1, "abc")
		}, "abcdef", EndOpen},
		{"sent again with more", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK, 1, "abcdef")
			p.segment(left, right, flagACK, 3, "cdefgh")
		}, "abcdefgh", EndOpen},
		{"the SYN again", func(p *tape) {
			p.segment(left, right, flagSYN, 0, "")
			p.segment(left, right, flagACK, 1, "abc")
		}, "abc", EndOpen},
		{"keepalive probe", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK, 3, "c")
		}, "abc", EndOpen},
		{"FIN", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagACK|flagFIN, 4, "")
		}, "abc", EndFIN},
		{"FIN with bytes, early", func(p *tape) {
			p.segment(left, right, flagACK|flagFIN, 4, "def")
			p.segment(left, right, flagACK, 1, "abc")
		}, "abcdef", EndFIN},
		{"RST", func(p *tape) {
			p.segment(left, right, flagACK, 1, "abc")
			p.segment(left, right, flagRST, 4, "")
		}, "abc", EndRST},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			p := opened()
			c.segments(p)
			p.segment(right, left, flagACK, 501, "xyz")
			rec := readTape(t, p)
			if len(rec.Conversations) != 1 || rec.Packets != int(p.n) {
				t.Fatalf("%d conversations, %d packets", len(rec.Conversations), rec.Packets)
			}
			conversation := rec.Conversations[0]
			if conversation.Addrs != [2]netip.AddrPort{left, right} {
				t.Errorf("addresses %v", conversation.Addrs)
			}
			if got := string(conversation.Stream(Active)); got != c.want {
				t.Errorf("active side %q, want %q", got, c.want)
			}
			if got := string(conversation.Stream(Passive)); got != "xyz" {
				t.Errorf("passive side %q", got)
			}
			if want := [2]End{c.end, EndOpen}; conversation.Ends != want {
				t.Errorf("ends %v, want %v", conversation.Ends, want)
			}
		})
	}
}

func TestSequenceNumbersWrap(t *testing.T) {
	p := newTape(binary.LittleEndian, magicMicroseconds, linkEthernet)
	const isn = 1<<32 - 3
	p.segment(left, right, flagSYN, isn, "")
	p.segment(left, right, flagACK, 1, "def") // isn + 4
	p.segment(left, right, flagACK, isn+1, "abc")
	if got := string(readTape(t, p).Conversations[0].Stream(Active)); got != "abcdef" {
		t.Errorf("got %q", got)
	}
}

func TestChunksKeepTimeAndOrder(t *testing.T) {
	p := opened()
	p.segment(left, right, flagACK, 1, "a")
	p.segment(right, left, flagACK, 501, "x")
	p.segment(left, right, flagACK, 2, "b")
	at := func(n int64) time.Time { return time.Unix(1000+n, 5000).UTC() }
	want := []Chunk{{at(2), Active, []byte("a")}, {at(3), Passive, []byte("x")}, {at(4), Active, []byte("b")}}
	if diff := cmp.Diff(want, readTape(t, p).Conversations[0].Chunks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheSamePortsAgainAreAnotherConversation(t *testing.T) {
	p := opened()
	p.segment(left, right, flagACK, 1, "first")
	p.segment(left, right, flagRST, 6, "")
	p.segment(left, right, flagSYN, 7000, "")
	p.segment(left, right, flagACK, 7001, "second")
	p.segment(left, right, flagRST, 7007, "")
	p.segment(right, left, flagSYN, 9000, "")
	p.segment(right, left, flagACK, 9001, "third")
	var got []string
	for _, c := range readTape(t, p).Conversations {
		got = append(got, string(c.Stream(Active)))
	}
	if diff := cmp.Diff([]string{"first", "second", "third"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileFormats(t *testing.T) {
	fd1, fd2 := netip.MustParseAddrPort("[fd77::11]:1023"), netip.MustParseAddrPort("[fd77::12]:988")
	tests := []struct {
		name     string
		tape     *tape
		from, to netip.AddrPort
		at       time.Time
	}{
		{"little-endian, microseconds", newTape(binary.LittleEndian, magicMicroseconds, linkEthernet), left, right, time.Unix(1000, 5000)},
		{"big-endian, nanoseconds", newTape(binary.BigEndian, magicNanoseconds, linkEthernet), left, right, time.Unix(1000, 5)},
		{"IPv6", newTape(binary.LittleEndian, magicMicroseconds, linkEthernet), fd1, fd2, time.Unix(1000, 5000)},
		{"cooked", newTape(binary.LittleEndian, magicMicroseconds, linkCooked), left, right, time.Unix(1000, 5000)},
		{"cooked, second version", newTape(binary.LittleEndian, magicMicroseconds, linkCooked2), fd1, fd2, time.Unix(1000, 5000)},
		{"raw IPv4", newTape(binary.LittleEndian, magicMicroseconds, linkRawIP), left, right, time.Unix(1000, 5000)},
		{"raw IPv6", newTape(binary.LittleEndian, magicMicroseconds, linkRawIP), fd1, fd2, time.Unix(1000, 5000)},
		{"VLAN", &tape{
			order: binary.LittleEndian, link: linkEthernet, vlan: true,
			file: newTape(binary.LittleEndian, magicMicroseconds, linkEthernet).file,
		}, left, right, time.Unix(1000, 5000)},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			c.tape.segment(c.from, c.to, flagSYN, 0, "")
			c.tape.segment(c.from, c.to, flagACK, 1, "abc")
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			_, _ = z.Write(c.tape.file)
			_ = z.Close()
			for _, file := range [][]byte{c.tape.file, zipped.Bytes()} {
				rec, err := Read(bytes.NewReader(file))
				if err != nil {
					t.Fatal(err)
				}
				got := rec.Conversations[0]
				if s := string(got.Stream(Active)); s != "abc" || got.Addrs[Passive] != c.to {
					t.Errorf("%q to %v", s, got.Addrs[Passive])
				}
				if !got.Opened.Equal(c.at) {
					t.Errorf("opened %v, want %v", got.Opened, c.at)
				}
			}
		})
	}
}

func TestOtherPacketsAreCountedAndLeftOut(t *testing.T) {
	p := opened()
	p.packet(append(p.linkHeader(0x0806), make([]byte, 28)...)) // ARP
	udp := append(p.linkHeader(etherIPv4), make([]byte, 28)...)
	udp[14], udp[17], udp[23] = 0x45, 28, 17
	p.packet(udp)
	if rec := readTape(t, p); rec.Packets != 4 || len(rec.Conversations) != 1 {
		t.Errorf("%d packets, %d conversations", rec.Packets, len(rec.Conversations))
	}
}

// Packets of a connection that started before the recording are skipped and counted, in both directions.
// All other connections are read, including a later one between the same ports.
func TestConnectionsWithoutStartAreSkipped(t *testing.T) {
	third := netip.AddrPortFrom(left.Addr(), 1022)
	for _, c := range []struct {
		name          string
		write         func(p *tape)
		skipped       int
		conversations int
	}{
		{"no start", func(p *tape) {
			p.segment(third, right, flagACK, 1, "abc")
			p.segment(right, third, flagACK, 1, "")
		}, 2, 1},
		{"no start of the passive side", func(p *tape) {
			p.segment(third, right, flagSYN, 0, "")
			p.segment(right, third, flagACK, 501, "xyz")
		}, 2, 1},
		{"only the answer to the start", func(p *tape) { p.segment(right, third, flagSYN|flagACK, 500, "") }, 1, 1},
		{"a later start", func(p *tape) {
			p.segment(third, right, flagACK|flagFIN, 1, "abc")
			p.segment(third, right, flagSYN, 90, "")
			p.segment(right, third, flagSYN|flagACK, 500, "")
			p.segment(third, right, flagACK, 91, "def")
		}, 1, 2},
		{"bytes missing", func(p *tape) {
			p.segment(third, right, flagACK, 1, "abc")
			p.segment(third, right, flagACK|flagFIN, 9, "")
		}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := opened()
			c.write(p)
			p.segment(left, right, flagACK, 1, "abc")
			rec := readTape(t, p)
			if rec.Skipped != c.skipped || len(rec.Conversations) != c.conversations {
				t.Fatalf("%d packets skipped, %d conversations, want %d and %d",
					rec.Skipped, len(rec.Conversations), c.skipped, c.conversations)
			}
			if got := string(rec.Conversations[0].Stream(Active)); got != "abc" {
				t.Errorf("the connection beside it has %q", got)
			}
		})
	}
}

func TestReadRejects(t *testing.T) {
	fragment := opened()
	{
		b := append(fragment.linkHeader(etherIPv4), make([]byte, 40)...)
		b[14], b[17], b[20], b[23] = 0x45, 40, 0x20, protocolTCP
		fragment.packet(b)
	}
	short := opened()
	{
		b := append(short.linkHeader(etherIPv4), make([]byte, 30)...)
		b[14], b[17], b[23] = 0x45, 40, protocolTCP
		short.packet(b)
	}
	gap := opened()
	gap.segment(left, right, flagACK, 5, "efg")
	lostEnd := opened()
	lostEnd.segment(left, right, flagACK|flagFIN, 5, "")
	cut := opened()
	binary.LittleEndian.PutUint32(cut.file[fileHeaderSize+12:], 1500)
	long := opened()
	binary.LittleEndian.PutUint32(long.file[fileHeaderSize+8:], 1<<31)
	otherLink := newTape(binary.LittleEndian, magicMicroseconds, 105)
	otherLink.packet(make([]byte, 60))

	whole := opened().file
	tests := []struct {
		name string
		file []byte
		want error // nil: any
	}{
		{"nothing", nil, io.EOF},
		{"part of the header", whole[:20], io.ErrUnexpectedEOF},
		{"other magic", append([]byte("pcapng"), whole[6:]...), nil},
		{"part of a packet header", whole[:fileHeaderSize+8], io.ErrUnexpectedEOF},
		{"part of a packet", whole[:len(whole)-3], io.ErrUnexpectedEOF},
		{"packet cut by the recorder", cut.file, errCut},
		{"packet of 2 GiB", long.file, nil},
		{"unknown link type", otherLink.file, nil},
		{"fragment", fragment.file, errFragment},
		{"short packet", short.file, errShort},
		{"missing bytes", gap.file, errGap},
		{"missing bytes before a FIN", lostEnd.file, errGap},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(c.file))
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
