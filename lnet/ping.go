package lnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Layout of a ping info (lnet-wire 7.2, 7.4). Numbers are in the sender's byte order,
// which the magic shows. A large NID is a byte string, and does not depend on the byte
// order.
//
//	 0           4           8           12          16
//	+-----------+-----------+-----------+-----------+
//	| pi_magic  |pi_features| pi_pid    | pi_nnis   |  number of small entries
//	+-----------+-----------+-----------+-----------+
//	| ns_nid (nid4) = 0@lo  | sequence  |ns_msg_size|  small entry 0
//	+-----------------------+-----------+-----------+
//	| ns_nid (nid4)         | ns_status | 0         |  small entries 1 to pi_nnis-1
//	+-----------------------+-----------+-----------+
//	| ns_status | nid_size, nid_type, nid_num, addr |  large entries, only with
//	+-----------+-----------------------------------+  LARGE_ADDR: 4 + 8 + nid_size
//	                                                   bytes rounded up to 4
//	+-----------+
//	| count     |                                      metadata, only with METADATA
//	+-----------+-----------+-----------------------+  or an efa NID
//	| nid4                  | 32 bytes              |  count times
//	+-----------------------+-----------------------+
//
// ns_msg_size is 0. With LARGE_ADDR it is the number of bytes up to the end of the large
// entries; its lowest two bits are ignored.
const (
	pingHeaderSize   = 16
	pingSmallSize    = 16
	pingLargeSize    = 4 + LargeNIDSize // with an address of 16 bytes
	pingLargeMin     = 8                // minimum number of remaining bytes for another large entry
	pingMetadataHead = 4
	pingMetadataSize = nid4Size + metadataDataSize
	metadataDataSize = 32

	// PingBufferMin is the size in bytes of the smallest reply buffer of discovery and
	// recovery pings, and of the first buffer for pushes. It has room for InterfacesMin
	// entries with 4-byte addresses (lnet-wire 7.6).
	PingBufferMin = pingHeaderSize + InterfacesMin*pingSmallSize
)

// PingInfo is a node's description of itself. It is sent in the REPLY to a ping, and in a
// push (lnet-wire 7). NIs does not contain the entry for 0@lo, which is always sent.
type PingInfo struct {
	// Features say what the node supports, and which parts the ping info has.
	Features Features
	// PID is the PID of the node, normally PIDLustre.
	PID PID
	// Seq is the sequence number, which increases whenever the list of NIs changes. It is
	// valid only if FeatMultiRail is set.
	Seq uint32
	// NIs are the node's interfaces: first those with 4-byte addresses, then those with
	// 16-byte addresses. Each of the two groups is in the order of the node's configuration.
	NIs []PingNI
	// Metadata is data that drivers add for some NIs. Only efalnd adds any.
	Metadata []PingMetadata
}

// PingNI is one interface of a PingInfo.
type PingNI struct {
	NID    NID
	Status NIStatus
}

// PingMetadata is the data that a driver adds for one NI.
type PingMetadata struct {
	// NID is the NID of the NI. It has a 4-byte address.
	NID NID
	// Data is known only to the driver for the NID's net type.
	Data [metadataDataSize]byte
}

// listable reports whether n can belong to an interface that other nodes reach. Other NIDs
// are neither encoded in ping info nor accepted from it: the wildcard does not fit into
// the layout, and with 0@lo this node would become its own peer.
func (n NID) listable() bool {
	return !n.IsZero() && !n.IsAny() && n.Net().Type() != TypeLO
}

// inMetadata reports whether metadata can be sent for n.
func (n NID) inMetadata() bool { return n.listable() && !n.IsLarge() }

// entryCounts returns the number of entries of each kind that Append writes.
func (p *PingInfo) entryCounts() (small, large, metadata int) {
	small = 1 // 0@lo
	for i := range p.NIs {
		switch nid := p.NIs[i].NID; {
		case !nid.listable():
		case nid.IsLarge():
			large++
		default:
			small++
		}
	}
	for i := range p.Metadata {
		if p.Metadata[i].NID.inMetadata() {
			metadata++
		}
	}
	return small, large, metadata
}

// Size returns the size of the encoded ping info in bytes.
func (p *PingInfo) Size() int {
	small, large, metadata := p.entryCounts()
	size := infoSize(small, large)
	if metadata > 0 || p.Features&FeatMetadata != 0 {
		size += pingMetadataHead + metadata*pingMetadataSize
	}
	return size
}

// infoSize returns the size in bytes of ping info with these numbers of entries, without
// metadata.
func infoSize(small, large int) int {
	return pingHeaderSize + small*pingSmallSize + large*pingLargeSize
}

// Append appends the ping info in the given byte order. It sets FeatLargeAddr if a NID has
// a 16-byte address and clears it otherwise, and sets FeatMetadata if p has metadata. It
// does not change FeatPrimaryLarge, which the caller must set. NIs whose NID is zero, a
// wildcard or on lo are omitted, and so is metadata for such NIDs or for large ones.
func (p *PingInfo) Append(b []byte, order binary.AppendByteOrder) []byte {
	small, large, metadata := p.entryCounts()
	features, total := p.Features&^FeatLargeAddr, 0
	if large > 0 {
		features |= FeatLargeAddr
		total = infoSize(small, large)
	}
	if metadata > 0 {
		features |= FeatMetadata
	}
	b = order.AppendUint32(b, MagicPing)
	b = order.AppendUint32(b, uint32(features))
	b = order.AppendUint32(b, uint32(p.PID))
	b = order.AppendUint32(b, uint32(small))
	b = appendPingSmall(b, order, LoopbackNID, p.Seq, uint32(total))
	for i := range p.NIs {
		if ni := &p.NIs[i]; ni.NID.listable() && !ni.NID.IsLarge() {
			b = appendPingSmall(b, order, ni.NID, uint32(ni.Status), 0)
		}
	}
	for i := range p.NIs {
		if ni := &p.NIs[i]; ni.NID.IsLarge() && ni.NID.listable() {
			b = order.AppendUint32(b, uint32(ni.Status))
			b = ni.NID.AppendLarge(b)
		}
	}
	if features&FeatMetadata == 0 {
		return b
	}
	b = order.AppendUint32(b, uint32(metadata))
	for i := range p.Metadata {
		if m := &p.Metadata[i]; m.NID.inMetadata() {
			nid4, _ := m.NID.NID4()
			b = order.AppendUint64(b, nid4)
			b = append(b, m.Data[:]...)
		}
	}
	return b
}

func appendPingSmall(b []byte, order binary.AppendByteOrder, n NID, status, size uint32) []byte {
	nid4, _ := n.NID4()
	b = order.AppendUint64(b, nid4)
	b = order.AppendUint32(b, status)
	return order.AppendUint32(b, size)
}

// Primary returns the node's primary NID. It is the first large NID if FeatPrimaryLarge is
// set, and otherwise the first NID, which must have a 4-byte address. Primary returns
// false if the info lists no such NID, so that it cannot be used for a peer (lnet-wire
// 7.5).
func (p *PingInfo) Primary() (NID, bool) {
	if p.Features&FeatPrimaryLarge != 0 {
		i := slices.IndexFunc(p.NIs, func(ni PingNI) bool { return ni.NID.IsLarge() })
		if i >= 0 {
			return p.NIs[i].NID, true
		}
	}
	if len(p.NIs) == 0 || p.NIs[0].NID.IsLarge() {
		return NID{}, false
	}
	return p.NIs[0].NID, true
}

var (
	errPingStatus   = errors.New("required bit NI_STATUS is not set")
	errPingLoopback = errors.New("first entry is not 0@lo")
	errPingNoEntry  = errors.New("must be at least 1, for 0@lo")
)

// DecodePingInfo decodes ping info in either byte order from the start of b. It returns an
// error for everything that lnet-wire 7.7 lists. maxNIs is lnet_interfaces_max, the
// maximum number of entries, including 0@lo.
//
// If the end of the info is missing in b, the error is a *TruncatedError with the total
// size in Need, and p holds the entries that were complete. Missing metadata is not an
// error. Any other error is a *MagicError or a *FieldError, and p is zero.
//
// Entries with a NID that cannot belong to the sender are skipped. Large entries with a
// size that no sender uses are skipped too (lnet-wire 7.4).
func DecodePingInfo(b []byte, maxNIs int) (p PingInfo, err error) {
	if len(b) < pingHeaderSize {
		return PingInfo{}, &TruncatedError{What: "ping info", Need: pingHeaderSize, Have: len(b)}
	}
	order, ok := MagicOrder(b, MagicPing)
	if !ok {
		return PingInfo{}, &MagicError{What: "ping info", Magic: binary.LittleEndian.Uint32(b)}
	}
	p.Features = Features(order.Uint32(b[4:]))
	p.PID = PID(order.Uint32(b[8:]))
	nnis := order.Uint32(b[12:])
	switch {
	case p.Features&FeatNIStatus == 0:
		return PingInfo{}, pingError("pi_features", p.Features, errPingStatus)
	case nnis == 0:
		return PingInfo{}, pingError("pi_nnis", nnis, errPingNoEntry)
	case int64(nnis) > int64(maxNIs):
		return PingInfo{}, pingError("pi_nnis", nnis, errTooManyEntries(maxNIs))
	}
	small := pingHeaderSize + int(nnis)*pingSmallSize // end of the small entries
	if len(b) < pingHeaderSize+pingSmallSize {
		return p, &TruncatedError{What: "ping info", Need: small, Have: len(b)}
	}
	end, err := p.decodeLoopback(b, order, small, maxNIs)
	if err != nil {
		return PingInfo{}, err
	}
	p.decodeSmall(b[:min(len(b), small)], order)
	if len(b) > small {
		p.decodeLarge(b[small:min(len(b), end)], order)
	}
	if len(p.NIs) >= maxNIs {
		return PingInfo{}, pingError("entries", len(p.NIs)+1, errTooManyEntries(maxNIs))
	}
	if len(b) < end {
		return p, &TruncatedError{What: "ping info", Need: end, Have: len(b)}
	}
	p.decodeMetadata(b[end:], order)
	return p, nil
}

func pingError(field string, value any, err error) error {
	return &FieldError{What: "ping info", Field: field, Value: value, Err: err}
}

func errTooManyEntries(maxNIs int) error { return fmt.Errorf("more than %d", maxNIs) }

// decodeLoopback decodes the first entry, that for 0@lo, and returns the offset at which
// the large entries end. small is the offset at which the small entries end.
func (p *PingInfo) decodeLoopback(b []byte, order binary.ByteOrder, small, maxNIs int) (end int, err error) {
	b = b[pingHeaderSize:]
	nid4 := order.Uint64(b)
	if want, _ := LoopbackNID.NID4(); nid4 != want {
		return 0, pingError("ns_nid", hexNID4(nid4), errPingLoopback)
	}
	p.Seq = order.Uint32(b[8:])
	if p.Features&FeatLargeAddr == 0 {
		return small, nil
	}
	size := order.Uint32(b[12:]) &^ 3
	// The caller will ping again with a buffer of this size. So a size that maxNIs interfaces
	// cannot fill is an error.
	limit := small + maxNIs*pingLargeSize
	if int64(size) < int64(small) || int64(size) > int64(limit) {
		return 0, pingError("ns_msg_size", size, fmt.Errorf("not within %d to %d bytes", small, limit))
	}
	return int(size), nil
}

// decodeSmall decodes the small entries that are complete in b. b holds the header and the
// small entries.
func (p *PingInfo) decodeSmall(b []byte, order binary.ByteOrder) {
	b = b[pingHeaderSize+pingSmallSize:]
	if len(b) < pingSmallSize {
		return
	}
	p.NIs = make([]PingNI, 0, len(b)/pingSmallSize)
	for ; len(b) >= pingSmallSize; b = b[pingSmallSize:] {
		p.addNI(order.Uint64(b), order.Uint32(b[8:]))
	}
}

func (p *PingInfo) addNI(nid4 uint64, status uint32) {
	if n, ok := parseNID4(nid4); ok && n.listable() {
		p.NIs = append(p.NIs, PingNI{NID: n, Status: NIStatus(status)})
	}
}

// decodeLarge decodes the large entries that are complete in b.
func (p *PingInfo) decodeLarge(b []byte, order binary.ByteOrder) {
	if len(b) < pingLargeMin {
		return
	}
	large := make([]PingNI, 0, len(b)/pingLargeSize)
	for len(b) >= pingLargeMin {
		entry := 4 + 8 + (int(b[4])+3)&^3
		if entry > len(b) {
			break
		}
		var nid [LargeNIDSize]byte
		copy(nid[:], b[4:entry])
		n, ok := getLarge(&nid)
		switch status := order.Uint32(b); {
		case !ok || !n.listable():
		case n.IsLarge():
			large = append(large, PingNI{NID: n, Status: NIStatus(status)})
		default:
			// A large entry with a 4-byte address is valid, but no known sender uses it.
			p.NIs = append(p.NIs, PingNI{NID: n, Status: NIStatus(status)})
		}
		b = b[entry:]
	}
	p.NIs = append(p.NIs, large...)
}

// decodeMetadata decodes the metadata that is complete in b. Missing metadata is not an
// error: senders announce far more room for it than they use, and receivers have smaller
// buffers.
func (p *PingInfo) decodeMetadata(b []byte, order binary.ByteOrder) {
	efa := func(ni PingNI) bool { return ni.NID.Net().Type() == TypeEFA && !ni.NID.IsLarge() }
	if p.Features&FeatMetadata == 0 && !slices.ContainsFunc(p.NIs, efa) {
		return
	}
	if len(b) < pingMetadataHead+pingMetadataSize {
		return
	}
	count := order.Uint32(b)
	b = b[pingMetadataHead:]
	n := min(int64(count), int64(len(b)/pingMetadataSize))
	if n == 0 {
		return
	}
	p.Metadata = make([]PingMetadata, 0, n)
	for range n {
		if nid, ok := parseNID4(order.Uint64(b)); ok && nid.inMetadata() {
			p.Metadata = append(p.Metadata, PingMetadata{NID: nid, Data: [metadataDataSize]byte(b[nid4Size:])})
		}
		b = b[pingMetadataSize:]
	}
}
