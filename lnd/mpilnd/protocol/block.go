package protocol

import (
	"encoding/binary"
	"errors"

	"github.com/lnetd/lnetd/lnet"
)

// Block describes the sender of a Query, Reply or Bye (MPI-24, mpilnd B.5):
//
//	32    34    36          40        44            48         56    76    80            88     89
//	+-----+-----+-----------+---------+-------------+----------+-----+-----+-------------+------+---
//	| min | max | short_max | credits | max payload | features | NID | PID | incarnation | role | 0
//	+-----+-----+-----------+---------+-------------+----------+-----+-----+-------------+------+---
type Block struct {
	Min, Max   uint16 // the versions that the sender understands
	ShortMax   uint32 // the longest payload of a Short that it receives, in bytes
	Credits    uint32 // how many messages that need a credit it receives at a time, at least 1
	MaxPayload uint32 // the longest payload that it receives, in bytes
	Features   uint64
	NID        lnet.NID
	PID        lnet.PID
	// Incarnation is another one each time that the interface is opened.
	Incarnation uint64
	Role        Role
}

// FeatureGet is the bit of Block.Features of a process that receives GetOpt.
const FeatureGet = 1

// Role is what kind of process the sender is. It is only shown.
type Role uint8

// The roles.
const (
	Client Role = iota
	Proxy
)

const blockSize = lnet.HeaderNID16Size

var errOutside = errors.New("outside its range")

// Append appends the encoded block to b.
func (k *Block) Append(b []byte) []byte {
	le, end := binary.LittleEndian, len(b)+blockSize
	b = le.AppendUint16(b, k.Min)
	b = le.AppendUint16(b, k.Max)
	b = le.AppendUint32(b, k.ShortMax)
	b = le.AppendUint32(b, k.Credits)
	b = le.AppendUint32(b, k.MaxPayload)
	b = le.AppendUint64(b, k.Features)
	b = k.NID.AppendLarge(b)
	b = le.AppendUint32(b, uint32(k.PID))
	b = le.AppendUint64(b, k.Incarnation)
	b = append(b, byte(k.Role))
	return append(b, make([]byte, end-len(b))...)
}

func (k *Block) decode(b []byte) (err error) {
	le := binary.LittleEndian
	*k = Block{
		Min: le.Uint16(b), Max: le.Uint16(b[2:]), ShortMax: le.Uint32(b[4:]), Credits: le.Uint32(b[8:]),
		MaxPayload: le.Uint32(b[12:]), Features: le.Uint64(b[16:]),
		PID: lnet.PID(le.Uint32(b[44:])), Incarnation: le.Uint64(b[48:]), Role: Role(b[56]),
	}
	if k.NID, err = lnet.DecodeLarge(b[24:]); err != nil {
		return err
	}
	if k.Credits == 0 {
		return fieldError("credits", k.Credits, errOutside)
	}
	return nil
}

// Agree returns an error if this implementation and the sender of k have no version in common.
func (k *Block) Agree() error {
	if k.Min > Version || k.Max < Version {
		return &lnet.VersionError{What: "message", Version: uint32(k.Max)}
	}
	return nil
}
