package message

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/lnet"
)

// CommandSize is the maximum length of a command in bytes. Buffers for commands have this size.
const CommandSize = 16 << 10

// A command is a header and, for some types, a JSON body up to the end of the message:
//
//	 0      8 magic, which has the version
//	 8      4 type
//	12      4 errno, of answers: 0 if all is well
//	16      8 sequence number of the command, the same in the answer
//	24        body
//
// All fields are little endian.
const (
	commandMagic = 0x3174_7465_6e70_6c01 // "lpnett1"
	commandHead  = 24
)

// Type is the type of a command or of an answer. The type of an answer is the type of its command plus
// one.
type Type uint32

// The commands and their answers.
const (
	Init       Type = 1 + iota // prepare a test as server or client
	InitDone                   //
	Start                      // start the test
	StartDone                  //
	Status                     // report the figures so far
	StatusData                 // the answer to Status, with Figures
	Stop                       // stop the test
	StopDone                   //
	types
)

var typeNames = [...]string{"nothing", "INIT", "INIT_DONE", "START", "START_DONE", "STATUS", "STATUS_DATA", "STOP", "STOP_DONE"}

// String returns the name of the type.
func (t Type) String() string {
	if t >= types {
		return fmt.Sprintf("type %d", uint32(t))
	}
	return typeNames[t]
}

// Answer returns the type of the answer to a command.
func (t Type) Answer() Type { return t + 1 }

// IsAnswer reports whether t is the type of an answer.
func (t Type) IsAnswer() bool { return t < types && t != 0 && t%2 == 0 }

// Command is a command or an answer.
type Command struct {
	Type Type
	// Errno is, in an answer, the reason why the node has not executed the command. 0 means success.
	Errno syscall.Errno
	// Sequence is the number of the command. The answer to a command has the same number.
	Sequence uint64
	// Test is set for Init, and Figures for StatusData without Errno. Otherwise they are nil.
	Test    *Test
	Figures *figures.Figures
}

// Role is the role of a node in a test: server or client.
type Role string

// The roles.
const (
	Server Role = "server"
	Client Role = "client"
)

// Kind is the kind of a test.
type Kind string

// The kinds of tests.
const (
	Ping Kind = "ping" // clients send messages, and servers send them back
	Bulk Kind = "bulk" // servers read bulk from clients and write it back
)

// Test specifies a test for one node.
type Test struct {
	Role Role `json:"role"`
	Kind Kind `json:"kind"`
	// Data is the address at which the node sends and receives test data. Peers are the data addresses of
	// the nodes with the other role.
	Data  string   `json:"data"`
	Peers []string `json:"peers"`

	// Count is the number of messages or transfers of each client with each server. Time is the time after
	// which a client starts no more of them. 0 means no limit; at least one of both must be set.
	Count uint64        `json:"count"`
	Time  time.Duration `json:"time"`
	// Size is the size of a message, or of the bulk of a transfer, in bytes.
	Size int `json:"size"`
	// Concurrency is the number of messages or transfers in progress between each client and each server. A
	// server has buffers for as many.
	Concurrency int `json:"concurrency"`
	// Timeout is the time after which a message or transfer fails if it has not ended.
	Timeout time.Duration `json:"timeout"`

	// For bulk tests: Buffers is the number of buffers of BufferSize bytes for messages with descriptors.
	// Each message has at most Descriptors descriptors.
	Buffers     int `json:"buffers"`
	BufferSize  int `json:"buffer_size"`
	Descriptors int `json:"descriptors"`
	// Verify makes a client compare the data that comes back with the data that it sent.
	Verify bool `json:"verify"`

	// Messages is the number of messages that a receive buffer holds.
	Messages int `json:"messages"`
	// Delivery is how events are delivered to the program: async, sync or poll.
	Delivery string `json:"delivery"`
}

// Limits of the fields of Test, which a console requests.
const (
	PeersMax       = 256
	ConcurrencyMax = 4096
	BuffersMax     = 4096
	MessagesMax    = 1024
	CountMax       = 1 << 40
	TimeMax        = 30 * 24 * time.Hour

	descriptorMin = 48 // bytes, of 4-byte NIDs (transport 6.6)
)

// Check validates a test. It returns ENODATA if the kind is unknown, and EINVAL if another field is
// invalid.
func (t *Test) Check() error {
	if t.Kind != Ping && t.Kind != Bulk {
		return fmt.Errorf("test type %q is neither ping nor bulk: %w", t.Kind, syscall.ENODATA)
	}
	within := func(what string, n, least, most int) error {
		if n >= least && n <= most {
			return nil
		}
		return fmt.Errorf("%s %d is not within %d to %d: %w", what, n, least, most, syscall.EINVAL)
	}
	errs := []error{
		within("number of peers", len(t.Peers), 1, PeersMax),
		within("concurrency", t.Concurrency, 1, ConcurrencyMax),
		within("messages per buffer", t.Messages, 1, MessagesMax),
	}
	if t.Role != Server && t.Role != Client {
		errs = append(errs, fmt.Errorf("role %q is neither server nor client: %w", t.Role, syscall.EINVAL))
	}
	if t.Count == 0 && t.Time == 0 || t.Count > CountMax {
		errs = append(errs, fmt.Errorf("number of messages or transfers, %d, is not within 1 to %d: %w", t.Count, uint64(CountMax), syscall.EINVAL))
	}
	if t.Time < 0 || t.Time > TimeMax || t.Timeout <= 0 || t.Timeout > TimeMax {
		errs = append(errs, fmt.Errorf("time %s of the test, or timeout %s of a message, is negative, zero or above %s: %w", t.Time, t.Timeout, TimeMax, syscall.EINVAL))
	}
	if t.Kind == Ping {
		errs = append(errs, within("message size", t.Size, PingHead, lnet.MTU))
	} else {
		errs = append(errs, t.checkBulk(within)...)
	}
	return errors.Join(errs...)
}

func (t *Test) checkBulk(within func(what string, n, least, most int) error) []error {
	errs := []error{
		within("bulk size", t.Size, 1, lnet.MTU),
		within("number of buffers for descriptors", t.Buffers, 1, BuffersMax),
		within("size of a buffer for descriptors", t.BufferSize, BulkSize(1, descriptorMin), lnet.MTU),
		within("descriptors per message", t.Descriptors, 2, 1<<20),
	}
	return errs
}

// errTooLong is the error for a command longer than CommandSize.
var errTooLong = fmt.Errorf("the command is longer than %d bytes, because it has too many peers: %w", CommandSize, syscall.EMSGSIZE)

// Append appends the encoded command. It returns EMSGSIZE if the command would be longer than
// CommandSize, because there are too many peers.
func (c *Command) Append(b []byte) ([]byte, error) {
	begin := len(b)
	b = binary.LittleEndian.AppendUint64(b, commandMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Type))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Errno))
	b = binary.LittleEndian.AppendUint64(b, c.Sequence)
	if body := c.body(); body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	if len(b)-begin > CommandSize {
		return nil, errTooLong
	}
	return b, nil
}

// body returns the value that the body encodes, or nil if the command has no body.
func (c *Command) body() any {
	switch {
	case c.Type == Init && c.Test != nil:
		return c.Test
	case c.Type == StatusData && c.Figures != nil:
		return c.Figures
	}
	return nil
}

// ParseCommand decodes a command or an answer. It accepts unknown types. It returns EPROTO if b is not a
// command, or its body is invalid.
func ParseCommand(b []byte) (*Command, error) {
	if len(b) < commandHead || len(b) > CommandSize {
		return nil, fmt.Errorf("the length of a command, %d bytes, is not within %d to %d: %w", len(b), commandHead, CommandSize, syscall.EPROTO)
	}
	if magic := binary.LittleEndian.Uint64(b); magic != commandMagic {
		return nil, fmt.Errorf("the magic of a command is %#x, not %#x: %w", magic, uint64(commandMagic), syscall.EPROTO)
	}
	c := &Command{
		Type:     Type(binary.LittleEndian.Uint32(b[8:])),
		Errno:    syscall.Errno(binary.LittleEndian.Uint32(b[12:])),
		Sequence: binary.LittleEndian.Uint64(b[16:]),
	}
	if c.Type == Init {
		c.Test = &Test{}
	}
	if c.Type == StatusData && c.Errno == 0 {
		c.Figures = &figures.Figures{}
	}
	if body := c.body(); body != nil {
		if err := json.Unmarshal(slices.Clone(b[commandHead:]), body); err != nil {
			return nil, fmt.Errorf("body of the command %s: %w: %w", c.Type, syscall.EPROTO, err)
		}
	}
	return c, nil
}
