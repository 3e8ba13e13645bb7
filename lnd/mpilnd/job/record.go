package job

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// A record is what a process says about itself at the start (mpilnd B.4). Numbers are little endian.
//
//	 0  version, 1
//	 1  role: 0 client, 1 proxy
//	 2  rank bits
//	 3  1 if the application and its proxies are two jobs, otherwise 0
//	 4  net, 4 bytes
//	 8  NID of a proxy, 20 bytes as in headers; 0 for clients
//	28  0, 4 bytes
//	32  name of the host, 64 bytes, filled with 0
const (
	recordVersion = 1
	recordSize    = 96
	nidOffset     = 8
	nameOffset    = 32
	maxName       = recordSize - nameOffset
)

// Roles of processes.
const (
	client = 0
	proxy  = 1
)

// record is a decoded record.
type record struct {
	role, rankBits int
	apart          bool
	net            lnet.Net
	nid            lnet.NID // of a proxy
	name           string
}

// encode returns the bytes of r.
func (r *record) encode() []byte {
	b := make([]byte, 0, recordSize)
	b = append(b, recordVersion, byte(r.role), byte(r.rankBits), 0)
	if r.apart {
		b[3] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(r.net))
	b = r.nid.AppendLarge(b)[:recordSize]
	copy(b[nameOffset:], r.name[:min(len(r.name), maxName)])
	return b
}

// decode decodes a record of recordSize bytes.
func decode(b []byte) (record, error) {
	if b[0] != recordVersion {
		return record{}, fmt.Errorf("version is %d, not %d: all programs must be of one version of lnetd", b[0], recordVersion)
	}
	r := record{role: int(b[1]), rankBits: int(b[2]), apart: b[3] == 1, net: lnet.Net(binary.LittleEndian.Uint32(b[4:]))}
	r.name = string(bytes.TrimRight(b[nameOffset:recordSize], "\x00"))
	switch r.role {
	case client:
		return r, nil
	case proxy:
		var err error
		r.nid, err = lnet.DecodeLarge(b[nidOffset:])
		return r, err
	}
	return record{}, errors.New("unknown role")
}
