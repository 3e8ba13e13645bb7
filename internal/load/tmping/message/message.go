package message

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// The kinds of messages. The kind is the first byte of a message.
const (
	Text = 'm' // a ping, its answer, or the content of bulk: text and NUL
	Recv = 'r' // a request to write to the client's buffer: lengths and a descriptor
	Send = 's' // a request to read the client's buffer: lengths and a descriptor
)

// A request consists of its kind; the length of the descriptor and the announced size, each as 8 decimal
// digits and NUL; and the descriptor.
const (
	digits = 8
	number = digits + 1 // length of a number with its NUL

	// RequestHead is the length of a request without its descriptor. numberMax is the largest number in a
	// request.
	RequestHead = 1 + 2*number
	numberMax   = 99_999_999
)

// Texts of messages.
const (
	PingText    = "ping"
	PongText    = " pong" // an answer is the text of the ping followed by this
	PassiveText = "passive ping"
	ActiveText  = "active pong"
	pattern     = "abcdefghi" // repeated in messages and bulk of a given size
)

// Message is a decoded message. Its slices refer to the bytes that were decoded.
type Message struct {
	Kind       byte
	Text       []byte // for kind Text: the text without NUL
	Descriptor []byte // for the other kinds
	Size       int    // for the other kinds: announced size in bytes
}

// AppendText appends a message of kind Text to b.
func AppendText(b []byte, text string) []byte {
	b = append(b, Text)
	b = append(b, text...)
	return append(b, 0)
}

// AppendRequest appends a request for a bulk transfer to b. A length or size with more than 8 digits is
// replaced by the largest number with 8 digits.
func AppendRequest(b []byte, kind byte, descriptor []byte, size int) []byte {
	b = append(b, kind)
	b = fmt.Appendf(b, "%0*d\x00%0*d\x00", digits, min(len(descriptor), numberMax), digits, min(size, numberMax))
	return append(b, descriptor...)
}

var (
	errEmpty  = errors.New("the message is empty")
	errEnd    = errors.New("the text of the message has no NUL at its end")
	errNumber = errors.New("the message lacks a number of 8 digits with a NUL")
	errCut    = errors.New("the descriptor in the message is truncated")
)

// Parse decodes a message.
func Parse(b []byte) (Message, error) {
	if len(b) == 0 {
		return Message{}, errEmpty
	}
	switch m := (Message{Kind: b[0]}); m.Kind {
	case Text:
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return Message{}, errEnd
		}
		m.Text = b[1:end]
		return m, nil
	case Recv, Send:
		length, ok := parseNumber(b[1:])
		if !ok {
			return Message{}, errNumber
		}
		if m.Size, ok = parseNumber(b[1+number:]); !ok {
			return Message{}, errNumber
		}
		if m.Descriptor = b[RequestHead:]; length == 0 || length > len(m.Descriptor) {
			return Message{}, errCut
		}
		m.Descriptor = m.Descriptor[:length]
		return m, nil
	}
	return Message{}, fmt.Errorf("the kind of the message, %q, is unknown", b[0])
}

// parseNumber decodes a number at the beginning of b: 8 digits and NUL. It returns false if b does not
// begin with one.
func parseNumber(b []byte) (int, bool) {
	if len(b) < number || b[digits] != 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:digits]), 10, 31)
	return int(n), err == nil
}

// PutPattern fills b with a message of its length: the kind Text, the repeated pattern, NUL.
func PutPattern(b []byte) {
	if len(b) > 1 {
		b[len(b)-1] = 0
		text := b[1 : len(b)-1]
		for n := copy(text, pattern); n < len(text); n *= 2 {
			copy(text[n:], text[:n])
		}
	}
	if len(b) > 0 {
		b[0] = Text
	}
}

// checkPattern returns an error if b differs from the output of PutPattern.
func checkPattern(b []byte) error {
	want := make([]byte, len(b))
	PutPattern(want)
	if bytes.Equal(b, want) {
		return nil
	}
	for k := range b {
		if b[k] != want[k] {
			return fmt.Errorf("byte %d of %d is %#02x instead of %#02x", k, len(b), b[k], want[k])
		}
	}
	return nil
}

// CheckBulk returns an error unless b is the content of bulk with the announced size: the output of
// PutPattern or, for size 0, a message with the text.
func CheckBulk(b []byte, size int, text string) error {
	if size > 0 {
		if len(b) != size {
			return fmt.Errorf("it has %d bytes instead of %d", len(b), size)
		}
		return checkPattern(b)
	}
	m, err := Parse(b)
	if err != nil {
		return err
	}
	if m.Kind != Text || string(m.Text) != text {
		return fmt.Errorf("it has kind %q and text %q instead of %q and %q", m.Kind, m.Text, Text, text)
	}
	return nil
}
