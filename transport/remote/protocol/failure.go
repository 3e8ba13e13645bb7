package protocol

import (
	"errors"
	"strings"
	"syscall"
)

// MaxText is the maximum length of the text in a failure or notice, in bytes. A text is printable ASCII for
// human readers. It extends to the end of the record and is not NUL-terminated.
const MaxText = 1024

// Failure is a reply with a nonzero status: the request has failed and had no effect.
type Failure struct {
	// Opcode is the opcode of the request.
	Opcode Opcode
	// Errno is the reason. Text is lnetd's explanation, which may be empty.
	Errno syscall.Errno
	Text  string
}

// Error returns a text such as "lnetd: TM_START: no rule for uid 1000: permission denied".
func (f *Failure) Error() string {
	s := "lnetd: " + f.Opcode.String()
	if f.Text != "" {
		s += ": " + f.Text
	}
	return s + ": " + f.Errno.Error()
}

// Unwrap returns the errno.
func (f *Failure) Unwrap() error { return f.Errno }

// Append appends the body, which is the text, to b.
func (f *Failure) Append(b []byte) []byte { return appendText(b, f.Text, MaxText) }

// Failure returns a *Failure if h is the header of a failed reply, and otherwise nil. body is the body of the
// reply: the text. The text is truncated to MaxText bytes, and unprintable bytes become "?".
func (h Header) Failure(body []byte) error {
	if h.Status == 0 {
		return nil
	}
	return &Failure{Opcode: h.Opcode, Errno: h.Status, Text: shownText(body, MaxText)}
}

// AppendFailure appends a reply to b that states that the request has failed with err. The status of the
// reply is the errno in err, or EIO if err contains no errno. The text of the reply is that of err.
func AppendFailure(b []byte, request Header, err error) []byte {
	request.Status = errnoOf(err)
	// The record cannot be too long, because the text is truncated. So the error is always nil.
	b, _ = appendRecord(b, request, &Failure{Text: errnoText(err, request.Status)})
	return b
}

// errnoText returns the text of err without the text of its errno at the end, because the status contains the
// errno.
func errnoText(err error, errno syscall.Errno) string {
	return strings.TrimSuffix(strings.TrimSuffix(err.Error(), errno.Error()), ": ")
}

// errnoOf returns the errno that err wraps. It returns EIO if err wraps no errno, or one that does not fit in
// a status.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno > 0 && errno <= maxErrno {
		return errno
	}
	return syscall.EIO
}
