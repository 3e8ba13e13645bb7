package protocol

import (
	"errors"
	"strings"
	"syscall"
)

// MaxText is how long the texts of failures and notices may be, in bytes. They are for
// people: printable ASCII, of which the rest of the record consists, without NUL.
const MaxText = 1024

// Failure is a reply with a status: the request has changed nothing.
type Failure struct {
	// Opcode is the request's.
	Opcode Opcode
	// Errno is why, Text is lnetd's explanation, which may be empty.
	Errno syscall.Errno
	Text  string
}

// Error is like "lnetd: TM_START: no rule for uid 1000: permission denied".
func (f *Failure) Error() string {
	s := "lnetd: " + f.Opcode.String()
	if f.Text != "" {
		s += ": " + f.Text
	}
	return s + ": " + f.Errno.Error()
}

// Unwrap is the errno.
func (f *Failure) Unwrap() error { return f.Errno }

// Append appends the body, which is the text.
func (f *Failure) Append(b []byte) []byte { return appendText(b, f.Text, MaxText) }

// Failure is a *Failure if h is the header of one with that body, else nil. What is not
// printable in the text, or too long, is not shown.
func (h Header) Failure(body []byte) error {
	if h.Status == 0 {
		return nil
	}
	return &Failure{Opcode: h.Opcode, Errno: h.Status, Text: shownText(body, MaxText)}
}

// AppendFailure appends the reply to a request that err came of: the errno that is in err,
// or EIO, and its words.
func AppendFailure(b []byte, request Header, err error) []byte {
	request.Status = errnoOf(err)
	// It cannot be too long: the text is cut off.
	b, _ = appendRecord(b, request, &Failure{Text: words(err, request.Status)})
	return b
}

// words are those of an error, without those of the errno at their end: that travels apart.
func words(err error, errno syscall.Errno) string {
	return strings.TrimSuffix(strings.TrimSuffix(err.Error(), errno.Error()), ": ")
}

// errnoOf is the errno of an error, such as a status can hold, else EIO.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno > 0 && errno <= maxErrno {
		return errno
	}
	return syscall.EIO
}
