package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Layout of Attach, the record of a proxy, and of lnetd's answer, which is Attached with four descriptors
// (the ring file, the eventfd that wakes lnetd, the socket that wakes the proxy, and the area), or a failure.
// A failure is also the last record that a proxy gets before lnetd cuts it off.
//
//	Attach:   0 magic u32, "UPLN"   4 version u16   6 0 u16   8 net u32   12 NID [20]   32 name [32]
//	Attached: 0 magic   4 version   6 0 u16   8 status i32   12 NID [20]   32 area u64   40 timeout u64
//	failure:  0 magic   4 version   6 0 u16   8 status i32   12 text, to the end
const (
	// Version is the only version.
	Version = 1
	// AttachSize and AttachedSize are the sizes of Attach and of Attached, in bytes.
	AttachSize   = 64
	AttachedSize = 48
	// MaxRecord is the size of the longest record, a failure, in bytes.
	MaxRecord = 1024

	magic    = 0x4e4c5055
	failHead = 12
	maxErrno = 4095
)

// MaxName is the maximum length of a proxy's name, in bytes.
const MaxName = 31

var (
	errSize    = fmt.Errorf("has another length than such a record: %w", syscall.EPROTO)
	errMagic   = fmt.Errorf("not %#x: %w", uint32(magic), syscall.EPROTO)
	errVersion = fmt.Errorf("not %d: %w", Version, syscall.EPROTO)
	errZero    = fmt.Errorf("must be 0: %w", syscall.EPROTO)
	errName    = fmt.Errorf("not 1 to %d bytes of printable ASCII with zeros to the end: %w", MaxName, syscall.EINVAL)
	errErrno   = fmt.Errorf("not -%d to 0: %w", maxErrno, syscall.EPROTO)
	errTimeout = fmt.Errorf("not below 2^63: %w", syscall.EPROTO)
	errArea    = fmt.Errorf("not two halves of buffers: %w", syscall.EPROTO)
)

// Attach asks to be a proxy of an NI.
type Attach struct {
	// Net is the NI's net. NID is that of the NI, or zero if it is the only one on this net.
	Net lnet.Net
	NID lnet.NID
	// Name is the proxy's name for display, 1 to MaxName bytes of printable ASCII.
	Name string
}

// Attached says that the proxy is attached.
type Attached struct {
	// NID is that of the NI.
	NID lnet.NID
	// AreaSize is the size of the area in bytes: two halves, each as NewBuffers wants it.
	AreaSize int
	// Timeout is the LND timeout, or 0 if the proxy's own default applies.
	Timeout time.Duration
}

// Failure says why a proxy is not attached, or not any more.
type Failure struct {
	Errno syscall.Errno
	Text  string
}

func (f *Failure) Error() string { return "lnetd: " + f.Text + ": " + f.Errno.Error() }
func (f *Failure) Unwrap() error { return f.Errno }

func appendHead(b []byte, rest uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint32(b, Version) // and two zeros
	return binary.LittleEndian.AppendUint32(b, rest)
}

func recordError(field string, value any, err error) error {
	return &lnet.FieldError{What: "record", Field: field, Value: value, Err: err}
}

// decodeHead decodes what all records begin with.
func decodeHead(b []byte) (rest uint32, err error) {
	if len(b) < failHead {
		return 0, recordError("length", len(b), errSize)
	}
	if m := binary.LittleEndian.Uint32(b); m != magic {
		return 0, recordError("magic", fmt.Sprintf("%#x", m), errMagic)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != Version {
		return 0, recordError("version", v, errVersion)
	}
	if z := binary.LittleEndian.Uint16(b[6:]); z != 0 {
		return 0, recordError("reserved bytes", z, errZero)
	}
	return binary.LittleEndian.Uint32(b[8:]), nil
}

// Append appends the record to b. The name must be valid.
func (a *Attach) Append(b []byte) []byte {
	b = appendHead(b, uint32(a.Net))
	b = a.NID.AppendLarge(b)
	b = append(b, a.Name...)
	return append(b, make([]byte, MaxName+1-len(a.Name))...)
}

// Decode decodes a whole record. EPROTO means that it is not an Attach of this version, EINVAL that a field is
// invalid.
func (a *Attach) Decode(b []byte) error {
	net, err := decodeHead(b)
	if err != nil {
		return err
	}
	if len(b) != AttachSize {
		return recordError("length", len(b), errSize)
	}
	nid, err := lnet.DecodeLarge(b[12:32])
	if err != nil {
		return fmt.Errorf("%w: %w", err, syscall.EINVAL)
	}
	name := strings.TrimRight(string(b[32:]), "\x00")
	*a = Attach{Net: lnet.Net(net), NID: nid, Name: name}
	return a.Validate()
}

// Validate returns EINVAL if the name is invalid.
func (a *Attach) Validate() error {
	valid := a.Name != "" && len(a.Name) <= MaxName
	for k := range len(a.Name) {
		valid = valid && printable(a.Name[k])
	}
	if !valid {
		return recordError("name", a.Name, errName)
	}
	return nil
}

// Append appends the record to b.
func (a *Attached) Append(b []byte) []byte {
	b = a.NID.AppendLarge(appendHead(b, 0))
	b = binary.LittleEndian.AppendUint64(b, uint64(a.AreaSize))
	return binary.LittleEndian.AppendUint64(b, uint64(a.Timeout))
}

// Append appends the record to b. A text that is too long is cut.
func (f *Failure) Append(b []byte) []byte {
	b = appendHead(b, uint32(-int32(f.Errno)))
	start := len(b)
	b = append(b, f.Text[:min(len(f.Text), MaxRecord-failHead)]...)
	maskUnprintable(b[start:])
	return b
}

// DecodeAnswer decodes a record of lnetd. If lnetd has refused the proxy or cut it off, the error is a
// *Failure. EPROTO means that the record is not valid.
func DecodeAnswer(b []byte) (*Attached, error) {
	status, err := decodeHead(b)
	if err != nil {
		return nil, err
	}
	if s := int32(status); s > 0 || s < -maxErrno {
		return nil, recordError("status", s, errErrno)
	} else if s < 0 {
		f := &Failure{Errno: syscall.Errno(-s)}
		text := []byte(string(b[failHead:min(len(b), MaxRecord)]))
		maskUnprintable(text)
		f.Text = string(text)
		return nil, f
	}
	if len(b) != AttachedSize {
		return nil, recordError("length", len(b), errSize)
	}
	nid, err := lnet.DecodeLarge(b[12:32])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, syscall.EPROTO)
	}
	size := binary.LittleEndian.Uint64(b[32:])
	if !halves(size) {
		return nil, recordError("area", size, errArea)
	}
	timeout := binary.LittleEndian.Uint64(b[40:])
	if timeout > math.MaxInt64 {
		return nil, recordError("timeout", timeout, errTimeout)
	}
	return &Attached{NID: nid, AreaSize: int(size), Timeout: time.Duration(timeout)}, nil
}
