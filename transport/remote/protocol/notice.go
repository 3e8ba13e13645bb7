package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Layout of the body of a NOTICE (transport 9.2), by kind. Clients ignore unknown kinds.
//
//	0 kind u32     1 going down        2 cut off    3 limits changed
//	4 value i32    in so many seconds  -errno       descriptor size, bytes
//	8 text         up to 1024 bytes of printable ASCII, to the end of the record
const noticeHead = 8

// NoticeKind is the kind of a Notice.
type NoticeKind uint32

const (
	// NoticeGoingDown announces that lnetd will end within Value seconds.
	NoticeGoingDown NoticeKind = 1
	// NoticeCutOff announces that lnetd is about to close the connection. Notice.Errno returns the reason. No
	// other record follows.
	NoticeCutOff NoticeKind = 2
	// NoticeLimits announces that descriptors may now have Value bytes, because the node has got a large NID.
	NoticeLimits NoticeKind = 3
)

// String returns a text such as "going down" or "notice 9".
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

// Notice is a record that lnetd sends without a request.
type Notice struct {
	// Kind may be unknown to this package.
	Kind NoticeKind
	// Value depends on Kind; see the constants. For NoticeCutOff it is a negative errno. For other known
	// kinds it is not negative.
	Value int32
	// Text is an explanation for human readers. It may be empty.
	Text string
}

var (
	errNegative = fmt.Errorf("negative: %w", syscall.EINVAL)
	errCutOff   = fmt.Errorf("not an errno, -1 to -%d: %w", maxErrno, syscall.EINVAL)
	errText     = fmt.Errorf("longer than %d bytes: %w", MaxText, syscall.EINVAL)
)

// GoingDown returns a notice that lnetd will end within the given number of seconds.
func GoingDown(seconds int, text string) Notice {
	return Notice{Kind: NoticeGoingDown, Value: int32(max(0, min(seconds, math.MaxInt32))), Text: text}
}

// CutOff returns a notice that lnetd is about to close the connection because of err. The notice contains the
// errno in err, or EIO if err contains no errno, and the text of err.
func CutOff(err error) Notice {
	errno := errnoOf(err)
	return Notice{Kind: NoticeCutOff, Value: -int32(errno), Text: errnoText(err, errno)}
}

// Errno returns the reason in a NoticeCutOff. It returns 0 for any other kind.
func (n *Notice) Errno() syscall.Errno {
	if n.Kind != NoticeCutOff {
		return 0
	}
	return syscall.Errno(-n.Value)
}

// Append implements Body. It appends the encoded body to b.
func (n *Notice) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Value))
	return appendText(b, n.Text, MaxText)
}

// Decode implements Body. Unprintable bytes of the text become "?".
func (n *Notice) Decode(b []byte) error {
	if len(b) < noticeHead {
		return fieldError("notice", "body", len(b), fmt.Errorf("must be at least %d bytes: %w", noticeHead, syscall.EINVAL))
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

// AppendNotice appends a record with notice n to b.
func AppendNotice(b []byte, n *Notice) []byte {
	// The record cannot be too long, because the text is truncated. So the error is always nil.
	b, _ = appendRecord(b, Header{Opcode: OpNotice}, n)
	return b
}
