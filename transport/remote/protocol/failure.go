package protocol

import (
	"errors"
	"strings"
	"syscall"
)

// MaxText is the maximum length of the texts of failures and notices, in bytes. Texts are printable ASCII
// for human readers. They extend to the end of the record, without NUL.
const MaxText = 1024

// Failure is a reply with a nonzero status. The request has had no effect.
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

// Append appends the body, which is the text.
func (f *Failure) Append(b []byte) []byte { return appendText(b, f.Text, MaxText) }

// Failure returns a *Failure if h is the header of a failed reply with the given body, otherwise nil. The
// text is cut to MaxText bytes, and unprintable bytes become "?".
func (h Header) Failure(body []byte) error {
	if h.Status == 0 {
		return nil
	}
	return &Failure{Opcode: h.Opcode, Errno: h.Status, Text: shownText(body, MaxText)}
}

// AppendFailure appends the failed reply to a request. Its status is the errno in err, or EIO. Its text is
// that of err.
func AppendFailure(b []byte, request Header, err error) []byte {
	request.Status = errnoOf(err)
	// It cannot be too long, because the text is cut.
	b, _ = appendRecord(b, request, &Failure{Text: errnoText(err, request.Status)})
	return b
}

// errnoText returns the text of an error, without the text of its errno at the end, which is sent separately.
func errnoText(err error, errno syscall.Errno) string {
	return strings.TrimSuffix(strings.TrimSuffix(err.Error(), errno.Error()), ": ")
}

// errnoOf returns the errno of an error. It returns EIO if the error has no errno, or one that does not fit
// in a status.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno > 0 && errno <= maxErrno {
		return errno
	}
	return syscall.EIO
}
