package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Layout of the body of a NOTICE (transport 9.2), by its kind. A client passes over kinds
// that it does not know.
//
//	0 kind u32     1 going down        2 cut off    3 limits changed
//	4 value i32    in so many seconds  -errno       descriptor size, bytes
//	8 text         up to 1024 bytes of printable ASCII, to the end of the record
const noticeHead = 8

// NoticeKind says what a Notice is about.
type NoticeKind uint32

const (
	// NoticeGoingDown says that lnetd ends in Value seconds.
	NoticeGoingDown NoticeKind = 1
	// NoticeCutOff says that lnetd is about to close the connection, and why: see
	// Notice.Errno. It is the last record.
	NoticeCutOff NoticeKind = 2
	// NoticeLimits says that the size of descriptors is Value now: a large NID has come.
	NoticeLimits NoticeKind = 3
)

// String is like "going down", or "notice 9".
func (k NoticeKind) String() string {
	switch k {
	case NoticeGoingDown:
		return "going down"
	case NoticeCutOff:
		return "cut off"
	case NoticeLimits:
		return "limits changed"
	}
	return fmt.Sprintf("notice %d", uint32(k))
}

// Notice is what lnetd says without having been asked.
type Notice struct {
	// Kind may be one that is not known.
	Kind NoticeKind
	// Value means what the Kind says, and is not negative but for an errno.
	Value int32
	// Text is for people, and may be empty.
	Text string
}

var (
	errNegative = fmt.Errorf("negative: %w", syscall.EINVAL)
	errCutOff   = fmt.Errorf("not an errno, -1 to -%d: %w", maxErrno, syscall.EINVAL)
	errText     = fmt.Errorf("more than %d bytes: %w", MaxText, syscall.EINVAL)
)

// GoingDown is the notice that lnetd ends in so many seconds.
func GoingDown(seconds int, text string) Notice {
	return Notice{Kind: NoticeGoingDown, Value: int32(max(0, min(seconds, math.MaxInt32))), Text: text}
}

// CutOff is the notice that err costs the client its connection: the errno that is in err,
// or EIO, and its words.
func CutOff(err error) Notice {
	errno := errnoOf(err)
	return Notice{Kind: NoticeCutOff, Value: -int32(errno), Text: words(err, errno)}
}

// Errno is why the client is cut off; 0 in a notice of any other kind.
func (n *Notice) Errno() syscall.Errno {
	if n.Kind != NoticeCutOff {
		return 0
	}
	return syscall.Errno(-n.Value)
}

// Append appends the body.
func (n *Notice) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Value))
	return appendText(b, n.Text, MaxText)
}

// Decode reads the body. What is not printable in the text is not shown.
func (n *Notice) Decode(b []byte) error {
	if len(b) < noticeHead {
		return fieldError("notice", "body", len(b), fmt.Errorf("less than %d bytes: %w", noticeHead, syscall.EINVAL))
	}
	if len(b) > noticeHead+MaxText {
		return fieldError("notice", "text", len(b)-noticeHead, errText)
	}
	v := Notice{
		Kind:  NoticeKind(binary.LittleEndian.Uint32(b)),
		Value: int32(binary.LittleEndian.Uint32(b[4:])),
	}
	switch v.Kind {
	case NoticeCutOff:
		if v.Value >= 0 || v.Value < -maxErrno {
			return fieldError("notice", "value", v.Value, errCutOff)
		}
	case NoticeGoingDown, NoticeLimits:
		if v.Value < 0 {
			return fieldError("notice", "value", v.Value, errNegative)
		}
	}
	v.Text = shownText(b[noticeHead:], MaxText)
	*n = v
	return nil
}

// AppendNotice appends a notice.
func AppendNotice(b []byte, n *Notice) []byte {
	// It cannot be too long: the text is cut off.
	b, _ = appendRecord(b, Header{Opcode: OpNotice}, n)
	return b
}
