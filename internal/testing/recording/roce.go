package recording

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"
	"time"
)

// Transfer is one element of a conversation over RDMA: a CM message, a SEND or an RDMA WRITE.
type Transfer struct {
	At   time.Time
	From Side
	Kind TransferKind
	// Data is the data that was sent or written, or the private data of a CM message.
	Data []byte
	// Addr and Key are the target of an RDMA WRITE: the remote address and key.
	Addr uint64
	Key  uint32
}

// TransferKind is the kind of a Transfer.
type TransferKind uint8

// Kinds of transfers.
const (
	CMRequest TransferKind = iota // REQ; Data is the private data after the addresses
	CMReply                       // REP
	CMReady                       // RTU
	Sent                          // SEND
	Written                       // RDMA WRITE
	CMReject                      // REJ by the LNet node; other REJs are left out
)

func (k TransferKind) String() string {
	return [...]string{"REQ", "REP", "RTU", "SEND", "RDMA_WRITE", "REJ"}[k]
}

// RDMAConversation is one RDMA connection, between two queue pairs.
type RDMAConversation struct {
	// Addrs are the IP addresses of the two sides. Port is the source port in the private data of the REQ.
	Addrs [2]netip.Addr
	Port  uint16
	// Transfers are in the order in which their last packets were recorded.
	Transfers []Transfer
}

// RDMARecording is the RoCE v2 traffic in one pcap file.
type RDMARecording struct {
	// Packets is the number of RoCE packets.
	Packets int
	// Skipped is the number of packets of connections that were opened before the recording began.
	Skipped int
	// Conversations are the RDMA connections in the order of their REQs.
	Conversations []*RDMAConversation
}

//go:embed testdata/roce/*.pcap.gz testdata/refused/*.pcap.gz testdata/rails/*.pcap.gz
var roceFiles embed.FS

// RDMANames returns the names of the embedded RoCE recordings of two nodes with one NI each. Each
// recording has one conversation.
func RDMANames() []string {
	entries, err := roceFiles.ReadDir("testdata/roce")
	if err != nil {
		panic(err) // the directory is embedded in the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".pcap.gz"))
	}
	return names
}

// LoadRDMA reads one of the embedded RoCE recordings. They are those of RDMANames, those in
// testdata/refused, in which the nodes support different features, and those in testdata/rails, in which
// a node has several NIs.
func LoadRDMA(name string) (*RDMARecording, error) {
	found, err := fs.Glob(roceFiles, "testdata/*/"+name+".pcap.gz")
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("%d recordings of RoCE have the name %s", len(found), name)
	}
	f, err := roceFiles.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	rec, err := ReadRDMA(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rec, nil
}

// ReadRDMA reads the RoCE v2 connections in a classic pcap file, which may be compressed with gzip. It
// leaves out connections that were opened before the recording began, and counts their packets in
// Skipped. It returns an error if a packet of a connection is missing.
func ReadRDMA(r io.Reader) (*RDMARecording, error) {
	packets, err := newPacketReader(r)
	if err != nil {
		return nil, err
	}
	var m roceReader
	for n := 1; ; n++ {
		p, err := packets.next()
		if errors.Is(err, io.EOF) {
			return &m.rec, nil
		}
		if err != nil {
			return nil, err
		}
		d, ok, err := parseRoCE(packets.link, p.data)
		if err == nil && ok {
			m.rec.Packets++
			err = m.add(p.at, d)
		}
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", n, err)
		}
	}
}

const (
	protocolUDP = 17
	rocePort    = 4791
	udpSize     = 8
	bthSize     = 12
	dethSize    = 8
	rethSize    = 16
	icrcSize    = 4
)

// datagram is a RoCE v2 packet. After the headers of IP and UDP come the base transport header, headers
// that depend on the opcode, the payload with up to 3 bytes of padding, and a checksum. body has
// everything after the base transport header except padding and checksum.
//
//	 0        1               2       4           5         8     9      12
//	+--------+---------------+-------+-----------+---------+-----+------+
//	| opcode | pad: bits 4,5 | p_key | reserved  | dest QP | ack | PSN  |
//	+--------+---------------+-------+-----------+---------+-----+------+
type datagram struct {
	from, to netip.Addr
	opcode   byte
	qp, psn  uint32
	body     []byte
}

// uint24 decodes a big-endian number of three bytes.
func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// parseRoCE parses the RoCE v2 datagram in a packet. ok is false if the packet is not RoCE v2 over IPv4.
func parseRoCE(link linkType, b []byte) (d datagram, ok bool, err error) {
	etherType, b, err := parseLink(link, b)
	if err != nil || etherType != etherIPv4 {
		return d, false, err
	}
	if len(b) < 20 {
		return d, false, fmt.Errorf("IPv4 header: %w", errShort)
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if b[9] != protocolUDP {
		return d, false, nil
	}
	if total > len(b) || total < header+udpSize {
		return d, false, fmt.Errorf("UDP header: %w", errShort)
	}
	udp := b[header:total]
	if binary.BigEndian.Uint16(udp[2:]) != rocePort {
		return d, false, nil
	}
	if len(udp) < udpSize+bthSize+icrcSize {
		return d, false, fmt.Errorf("transport header: %w", errShort)
	}
	bth := udp[udpSize:]
	pad := int(bth[1] >> 4 & 3)
	d = datagram{
		from: netip.AddrFrom4([4]byte(b[12:])), to: netip.AddrFrom4([4]byte(b[16:])),
		opcode: bth[0], qp: uint24(bth[5:]), psn: uint24(bth[9:]),
	}
	end := len(bth) - icrcSize - pad
	if end < bthSize {
		return d, false, fmt.Errorf("payload: %w", errShort)
	}
	d.body = bth[bthSize:end]
	return d, true, nil
}

// Opcodes of reliable connections, and the opcode of management datagrams.
const (
	opSendFirst   = 0x00
	opSendMiddle  = 0x01
	opSendLast    = 0x02
	opSendOnly    = 0x04
	opWriteFirst  = 0x06
	opWriteMiddle = 0x07
	opWriteLast   = 0x08
	opWriteOnly   = 0x0a
	opAck         = 0x11
	opManagement  = 0x64
)

// directionKey identifies a direction of a connection by the addresses and the receiver's queue pair,
// which are in each packet.
type directionKey struct {
	from, to netip.Addr
	qp       uint32 // number of the receiver's queue pair
}

// direction is one direction of a connection that is being read.
type direction struct {
	conversation *RDMAConversation
	from         Side
	psn          uint32 // packet sequence number expected in the next packet
	partial      Transfer
}

// pendingRequest is a connection for which a REQ was recorded. It has the number of the active side's
// queue pair, and the first packet sequence number in packets to that queue pair.
type pendingRequest struct {
	conversation *RDMAConversation
	qp, psn      uint32
}

// cmEndpoint identifies one end of a CM exchange: a node, and the communication ID that the node chose
// for the connection.
type cmEndpoint struct {
	node netip.Addr
	id   uint32
}

// roceReader assembles RoCE packets to connections and transfers.
type roceReader struct {
	rec        RDMARecording
	pending    map[cmEndpoint]pendingRequest
	replied    map[cmEndpoint]*RDMAConversation // connections with a REP, by the passive end
	directions map[directionKey]*direction
}

func (m *roceReader) add(at time.Time, d datagram) error {
	if d.opcode == opManagement {
		return m.management(at, d)
	}
	h := m.directions[directionKey{d.from, d.to, d.qp}]
	if h == nil {
		m.rec.Skipped++
		return nil
	}
	if d.opcode == opAck {
		return nil
	}
	return h.add(at, d)
}

// A management datagram of the CM starts with a header of 24 bytes. Its attribute determines the rest,
// with fields at the following offsets. The PSN is the first one in packets to the sender of the
// datagram.
//
//	REQ   0 local ID   32 QP number   44 PSN   140 private data: the addresses, and 56 bytes
//	REP   0 local ID, 4 remote ID   12 QP number   20 PSN   36 private data
//	RTU   0 local ID, 4 remote ID
//	REJ   0 local ID, 4 remote ID   10 reason   84 private data
const (
	madHeader      = 24
	madSize        = 256
	madCM          = 7
	cmREQ          = 0x10
	cmREJ          = 0x12
	cmREP          = 0x13
	cmRTU          = 0x14
	reqPrivate     = 140
	repPrivate     = 36
	addressesSize  = 36 // the port is at offsets 2 to 4
	addressesPort  = 2
	reqPrivateSize = 92
	repPrivateSize = 196
	rejReason      = 10
	rejPrivate     = 84
	rejPrivateSize = 148
	rejConsumer    = 28
)

func (m *roceReader) management(at time.Time, d datagram) error {
	if len(d.body) < dethSize+madSize {
		return fmt.Errorf("management datagram: %w", errShort)
	}
	mad := d.body[dethSize:]
	if mad[1] != madCM {
		return nil
	}
	b := mad[madHeader:]
	local, remote := cmEndpoint{d.from, binary.BigEndian.Uint32(b)}, cmEndpoint{d.to, binary.BigEndian.Uint32(b[4:])}
	switch binary.BigEndian.Uint16(mad[16:]) {
	case cmREQ:
		if _, twice := m.pending[local]; twice {
			return nil
		}
		private := b[reqPrivate : reqPrivate+reqPrivateSize]
		c := &RDMAConversation{
			Addrs: [2]netip.Addr{d.from, d.to}, Port: binary.BigEndian.Uint16(private[addressesPort:]),
			Transfers: []Transfer{{At: at, Kind: CMRequest, Data: private[addressesSize:]}},
		}
		m.rec.Conversations = append(m.rec.Conversations, c)
		if m.pending == nil {
			m.pending, m.directions = map[cmEndpoint]pendingRequest{}, map[directionKey]*direction{}
			m.replied = map[cmEndpoint]*RDMAConversation{}
		}
		m.pending[local] = pendingRequest{c, uint24(b[32:]), uint24(b[44:])}
	case cmREP:
		o, ok := m.pending[remote]
		if !ok {
			m.rec.Skipped++
			return nil
		}
		m.reply(at, d, b, o)
	case cmREJ:
		o, ok := m.pending[remote]
		if !ok {
			m.rec.Skipped++
			return nil
		}
		if binary.BigEndian.Uint16(b[rejReason:]) != rejConsumer {
			return nil
		}
		o.conversation.Transfers = append(o.conversation.Transfers, Transfer{
			At: at, From: Passive, Kind: CMReject, Data: b[rejPrivate : rejPrivate+rejPrivateSize],
		})
	case cmRTU:
		c := m.replied[remote]
		if c == nil {
			m.rec.Skipped++
			return nil
		}
		c.Transfers = append(c.Transfers, Transfer{At: at, Kind: CMReady})
	}
	return nil
}

// reply processes a REP with body b that answers request o. From then on, packets of both directions are
// assembled.
func (m *roceReader) reply(at time.Time, d datagram, b []byte, o pendingRequest) {
	local, c := cmEndpoint{d.from, binary.BigEndian.Uint32(b)}, o.conversation
	if m.replied[local] != nil {
		return // retransmission
	}
	m.replied[local] = c
	c.Transfers = append(c.Transfers, Transfer{
		At: at, From: Passive, Kind: CMReply, Data: b[repPrivate : repPrivate+repPrivateSize],
	})
	m.directions[directionKey{d.to, d.from, uint24(b[12:])}] = &direction{conversation: c, from: Active, psn: uint24(b[20:])}
	m.directions[directionKey{d.from, d.to, o.qp}] = &direction{conversation: c, from: Passive, psn: o.psn}
}

// add adds a packet to this direction. It ignores retransmissions, and returns errGap if a packet is
// missing.
func (h *direction) add(at time.Time, d datagram) error {
	if ahead := (d.psn - h.psn) & 0xffffff; ahead != 0 {
		if ahead < 1<<23 {
			return errGap
		}
		return nil
	}
	h.psn = (h.psn + 1) & 0xffffff
	t := &h.partial
	switch d.opcode {
	case opSendFirst, opSendOnly:
		*t = Transfer{From: h.from, Kind: Sent}
	case opWriteFirst, opWriteOnly:
		if len(d.body) < rethSize {
			return fmt.Errorf("RDMA header: %w", errShort)
		}
		*t = Transfer{
			From: h.from, Kind: Written,
			Addr: binary.BigEndian.Uint64(d.body), Key: binary.BigEndian.Uint32(d.body[8:]),
		}
		d.body = d.body[rethSize:]
	case opSendMiddle, opSendLast, opWriteMiddle, opWriteLast:
	default:
		return fmt.Errorf("opcode %#x is not known", d.opcode)
	}
	t.Data = append(t.Data, d.body...)
	switch d.opcode {
	case opSendLast, opSendOnly, opWriteLast, opWriteOnly:
		t.At = at
		h.conversation.Transfers = append(h.conversation.Transfers, *t)
	}
	return nil
}
