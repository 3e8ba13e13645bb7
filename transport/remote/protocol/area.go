package protocol

import "encoding/binary"

// Layouts of the bodies of AREA_ADD, its reply and AREA_DEL (transport 9.2, 9.3).
//
//	AREA_ADD            reply               AREA_DEL
//	 0 size u64         0 area u32          0 area u32
//	 8 flags u32, 0     4                   4
//	12 0 u32
//	16
const (
	areaAddSize = 16
	areaIDSize  = 4
)

// AreaAdd passes memory to lnetd, as a memfd whose descriptor accompanies the record. The memfd must be
// sealed against shrinking.
type AreaAdd struct {
	// Size is the size of the memfd in bytes, more than 0. lnetd checks that the memfd has this size and that
	// it is a multiple of the page size.
	Size uint64
}

// Opcode returns OpAreaAdd.
func (*AreaAdd) Opcode() Opcode { return OpAreaAdd }

// Append implements Body. It appends the encoded body to b.
func (a *AreaAdd) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.Size)
	return append(b, make([]byte, 8)...)
}

// Decode implements Body. It decodes b, which is the whole body.
func (a *AreaAdd) Decode(b []byte) error {
	if err := checkLength("area", b, areaAddSize); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint64(b)
	if size == 0 {
		return fieldError("area", "size", size, errIsZero)
	}
	if flags := binary.LittleEndian.Uint32(b[8:]); flags != 0 {
		return fieldError("area", "flags", flags, errZero)
	}
	if err := zero32("area", b, 12); err != nil {
		return err
	}
	a.Size = size
	return nil
}

// AreaAddReply is the reply to AreaAdd.
type AreaAddReply struct {
	// Area identifies the new area in later requests on this connection.
	Area uint32
}

// Append implements Body. It appends the encoded body to b.
func (r *AreaAddReply) Append(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, r.Area) }

// Decode implements Body. It decodes b, which is the whole body.
func (r *AreaAddReply) Decode(b []byte) error {
	if err := checkLength("area reply", b, areaIDSize); err != nil {
		return err
	}
	r.Area = binary.LittleEndian.Uint32(b)
	return nil
}

// AreaDel removes an area. The request fails with EBUSY while a buffer uses a part of the area. The reply is
// Empty.
type AreaDel struct {
	// Area is AreaAddReply.Area of the area to remove.
	Area uint32
}

// Opcode returns OpAreaDel.
func (*AreaDel) Opcode() Opcode { return OpAreaDel }

// Append implements Body. It appends the encoded body to b.
func (a *AreaDel) Append(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, a.Area) }

// Decode implements Body. It decodes b, which is the whole body.
func (a *AreaDel) Decode(b []byte) error {
	if err := checkLength("area to delete", b, areaIDSize); err != nil {
		return err
	}
	a.Area = binary.LittleEndian.Uint32(b)
	return nil
}
