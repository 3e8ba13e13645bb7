package tmping

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping/message"
	"github.com/lnetd/lnetd/transport"
)

// Default addresses and limits (transport 10.1).
const (
	Portal        = 39
	ServerTMID    = 12
	ClientsMax    = 32
	buffersMin    = 4
	bufferDefault = 8 * 4096 // bytes
	receiveMin    = 100      // bytes
)

// Config configures servers and clients.
type Config struct {
	// Buffers is the number of buffers of a server, at least 4. ReceiveBuffers is the number of those that
	// receive messages. If it is less than 2 or more than half of Buffers, the server uses an eighth of
	// Buffers, but at least 2.
	Buffers, ReceiveBuffers int
	// MinReceiveSize and MaxMessages are set in the receive buffers. If one of them is 0, it is the buffer
	// size divided by the other. If both are 0 or one is out of range, MinReceiveSize is the maximum of
	// 100, MessageSize and the size of a request, and MaxMessages is limited by the buffer size and by the
	// room for events (tmhost.Host.Events).
	MinReceiveSize, MaxMessages int
	// Delay is how long the server waits before each bulk transfer.
	Delay time.Duration
	// Delivery is how events are delivered to the server.
	Delivery tmhost.Delivery

	// Clients is the number of clients, 1 to 32. Loops is how often each client runs all its steps.
	Clients, Loops int
	// BulkSize is the size of a bulk transfer in bytes, and MessageSize the size of a client's message. 0
	// means a short text.
	BulkSize, MessageSize int
	// MessageTime and BulkTime are the time limits for a message and for a bulk transfer.
	MessageTime, BulkTime time.Duration
}

// DefaultConfig returns the default configuration.
func DefaultConfig() Config {
	return Config{
		Buffers: 20, Delivery: tmhost.Sync, Clients: 1, Loops: 1,
		MessageTime: 5 * time.Second, BulkTime: 10 * time.Second,
	}
}

// Check validates the configuration.
func (c *Config) Check() error {
	const bulkMin, messageMin = 3, 3 // kind, a letter, NUL
	switch {
	case c.Buffers < buffersMin:
		return fmt.Errorf("number of buffers, %d, is less than %d", c.Buffers, buffersMin)
	case c.Clients < 1 || c.Clients > ClientsMax:
		return fmt.Errorf("number of clients, %d, is not within 1 to %d", c.Clients, ClientsMax)
	case c.Loops < 1:
		return fmt.Errorf("number of loops, %d, is less than 1", c.Loops)
	case c.BulkSize != 0 && (c.BulkSize < bulkMin || c.BulkSize > 1<<20):
		return fmt.Errorf("bulk size, %d bytes, is not within %d to 1M", c.BulkSize, bulkMin)
	case c.MessageSize != 0 && (c.MessageSize < messageMin || c.MessageSize > 1<<20-len(message.PongText)):
		return fmt.Errorf("message size, %d bytes, is not within %d to 1M-%d", c.MessageSize, messageMin, len(message.PongText))
	case c.MessageTime <= 0 || c.BulkTime <= 0:
		return fmt.Errorf("timeouts of messages, %s, and of bulk data, %s, must be above 0", c.MessageTime, c.BulkTime)
	case c.Delay < 0:
		return fmt.Errorf("delay %s is negative", c.Delay)
	}
	return nil
}

// bufferSize returns the size of each buffer. It has room for the answer to the longest message.
func (c *Config) bufferSize() int {
	return max(bufferDefault, c.BulkSize, c.MessageSize+len(message.PongText))
}

// receive returns the number of a server's receive buffers, and their MinReceiveSize and MaxMessages.
func (c *Config) receive(l transport.Limits) (buffers, minSize, messages int) {
	buffers = c.ReceiveBuffers
	if buffers < 2 || buffers > c.Buffers/2 {
		buffers = max(c.Buffers/8, 2)
	}
	size := c.bufferSize()
	minSize, messages = c.MinReceiveSize, c.MaxMessages
	switch {
	case minSize > 0 && messages <= 0:
		messages = size / minSize
	case minSize <= 0 && messages > 0:
		minSize = size / messages
	}
	if minSize < receiveMin || minSize > size || messages < 1 {
		minSize = max(receiveMin, c.MessageSize, message.RequestHead+l.DescriptorSize)
		messages = size / minSize
	}
	return buffers, minSize, messages
}
