package tmping

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tmping/message"
	"github.com/lnetd/lnetd/transport"
)

// retryDelays are the pauses before the retries of a message that could not be sent.
var retryDelays = [...]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}

var (
	errNotSent  = errors.New("the message could not be sent")
	errNoAnswer = errors.New("no answer within the time limit")
)

// client sends requests to a server, one after the other, and checks the results.
type client struct {
	config     Config
	name       string
	server     string
	domain     *transport.Domain
	loop       *tmhost.Loop
	recv, send *sentBuffer
	bulk       *sentBuffer
	onError    func(error)

	errors, retries uint64
}

// sentBuffer is a buffer and the outcome of its last use.
type sentBuffer struct {
	*transport.Buffer
	outcome chan outcome // has room for one outcome: a buffer has one final event per use
}

// outcome has the parts of a final event that a client uses.
type outcome struct {
	length int
	err    error
}

// bufferEnded is the callback for all buffers of a client.
func bufferEnded(e *transport.BufferEvent) {
	if e.Final {
		e.Buffer.Data.(*sentBuffer).outcome <- outcome{e.Length, e.Err}
	}
}

func startClient(ctx context.Context, d *transport.Domain, name, address, server string, c Config) (*client, error) {
	k := &client{config: c, name: name, server: server, domain: d}
	var err error
	if k.loop, err = tmhost.Start(ctx, d, address, tmhost.Async, nil); err != nil {
		return nil, fmt.Errorf("%s at %s: %w", name, address, err)
	}
	callbacks := transport.Callbacks{bufferEnded, bufferEnded, bufferEnded, bufferEnded, bufferEnded, bufferEnded}
	for _, p := range []**sentBuffer{&k.recv, &k.send, &k.bulk} {
		b, err := d.Buffer(ctx, c.bufferSize())
		if err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), c.MessageTime)
			defer cancel()
			return nil, errors.Join(err, k.close(ctx))
		}
		*p = &sentBuffer{b, make(chan outcome, 1)}
		b.Data, b.Callbacks = *p, &callbacks
	}
	return k, nil
}

func (c *client) close(ctx context.Context) error {
	if err := c.loop.Close(ctx); err != nil {
		return err
	}
	var buffers []*transport.Buffer
	for _, p := range []*sentBuffer{c.recv, c.send, c.bulk} {
		if p != nil {
			buffers = append(buffers, p.Buffer)
		}
	}
	return freeAll(c.domain, buffers)
}

// run runs the configured number of loops, each of which has three steps, or returns when ctx is done.
// It counts and reports errors, except those because ctx is done.
func (c *client) run(ctx context.Context) {
	for loop := range c.config.Loops {
		for _, step := range []struct {
			name string
			do   func(ctx context.Context) error
		}{{"ping", c.ping}, {"passive receive", c.passiveRecv}, {"passive send", c.passiveSend}} {
			if ctx.Err() != nil {
				return
			}
			if err := step.do(ctx); err != nil {
				if ctx.Err() != nil {
					return // the error is a consequence of ctx
				}
				c.errors++
				c.onError(fmt.Errorf("%s: loop %d: %s: %w", c.name, loop, step.name, err))
			}
		}
	}
}

// add adds a buffer to queue q. Its deadline is limit from now.
func (c *client) add(p *sentBuffer, q transport.QueueType, limit time.Duration) error {
	p.Queue, p.Deadline = q, time.Now().Add(limit)
	return c.loop.TM.Add(p.Buffer)
}

// await waits for the final event of a buffer. If ctx is done first, it cancels the buffer.
func (c *client) await(ctx context.Context, p *sentBuffer) outcome {
	select {
	case o := <-p.outcome:
		return o
	case <-ctx.Done():
		c.loop.TM.Cancel(p.Buffer)
		return <-p.outcome
	}
}

// cancel cancels a buffer and waits for its final event.
func (c *client) cancel(p *sentBuffer) {
	c.loop.TM.Cancel(p.Buffer)
	<-p.outcome
}

// sendMessage sends the first length bytes of the send buffer to the server, with retries.
func (c *client) sendMessage(ctx context.Context, length int) error {
	to, err := c.loop.TM.EndPoint(c.server)
	if err != nil {
		return err
	}
	defer to.Put()
	defer func() { c.send.EndPoint = nil }()
	c.send.EndPoint, c.send.Length = to, length
	for try := 0; ; try++ {
		err := c.add(c.send, transport.MsgSend, c.config.MessageTime)
		if err == nil {
			err = c.await(ctx, c.send).err
		}
		if err == nil {
			return nil
		}
		if try == len(retryDelays) || ctx.Err() != nil {
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
		c.retries++
		if err := pause(ctx, retryDelays[try]); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ping sends a text message to the server and checks its answer.
func (c *client) ping(ctx context.Context) error {
	text := message.PingText
	if c.config.MessageSize > 0 {
		m := make([]byte, c.config.MessageSize)
		message.PutPattern(m)
		text = string(m[1 : len(m)-1])
	}
	// The buffer for the answer must be queued before the message is sent, so its time limit includes all
	// retries.
	c.recv.MinReceiveSize, c.recv.MaxMessages = c.recv.Size(), 1
	sending := c.config.MessageTime * time.Duration(len(retryDelays)+1)
	for _, p := range retryDelays {
		sending += p
	}
	if err := c.add(c.recv, transport.MsgRecv, sending+c.config.MessageTime); err != nil {
		return err
	}
	length := c.send.CopyIn(0, message.AppendText(nil, text))
	if err := c.sendMessage(ctx, length); err != nil {
		c.cancel(c.recv)
		return err
	}
	o, err := c.awaitWithin(ctx, c.recv, c.config.MessageTime)
	if err != nil {
		return err
	}
	m, err := message.Parse(c.recv.Bytes()[:o.length])
	if err == nil && (m.Kind != message.Text || string(m.Text) != text+message.PongText) {
		err = fmt.Errorf("it has kind %q and text %.40q", m.Kind, m.Text)
	}
	if err != nil {
		return fmt.Errorf("the answer of %d bytes is wrong: %w", o.length, err)
	}
	return nil
}

// awaitWithin waits up to limit for the final event of a buffer. Then it cancels the buffer and returns
// errNoAnswer.
func (c *client) awaitWithin(ctx context.Context, p *sentBuffer, limit time.Duration) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o := c.await(limited, p)
	if o.err != nil && limited.Err() != nil && ctx.Err() == nil {
		return o, errNoAnswer
	}
	return o, o.err
}

// passiveRecv asks the server to write to the bulk buffer, and checks the content.
func (c *client) passiveRecv(ctx context.Context) error {
	o, err := c.announce(ctx, transport.PassiveBulkRecv, message.Recv)
	if err != nil {
		return err
	}
	if err := message.CheckBulk(c.bulk.Bytes()[:o.length], c.config.BulkSize, message.ActiveText); err != nil {
		return fmt.Errorf("the received bulk data is wrong: %w", err)
	}
	return nil
}

// passiveSend asks the server to read the bulk buffer. The server checks the content.
func (c *client) passiveSend(ctx context.Context) error {
	content := message.AppendText(nil, message.PassiveText)
	if c.config.BulkSize > 0 {
		content = make([]byte, c.config.BulkSize)
		message.PutPattern(content)
	}
	c.bulk.Length = c.bulk.CopyIn(0, content)
	_, err := c.announce(ctx, transport.PassiveBulkSend, message.Send)
	return err
}

// announce adds the bulk buffer to queue q, sends its descriptor to the server in a request of the given
// kind, and waits for the final event of the buffer.
func (c *client) announce(ctx context.Context, q transport.QueueType, kind byte) (outcome, error) {
	if err := c.add(c.bulk, q, c.config.BulkTime); err != nil {
		return outcome{}, err
	}
	request := message.AppendRequest(nil, kind, c.bulk.Descriptor, c.config.BulkSize)
	if err := c.sendMessage(ctx, c.send.CopyIn(0, request)); err != nil {
		c.cancel(c.bulk)
		return outcome{}, err
	}
	o := c.await(ctx, c.bulk)
	return o, o.err
}
