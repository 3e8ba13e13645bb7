package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Stream is a reply that lasts until it is closed, lnetd stops, or a limit of the request is reached. It must not be
// used concurrently, except that Close and Finish may be called at any time.
type Stream struct {
	client   *Client
	resp     *http.Response
	conn     net.Conn
	finished atomic.Bool // Finish was called
}

// Read reads data of the stream. At the end it returns io.EOF if the stream is complete, and otherwise an *api.Fault.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.resp.Body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, s.client.interrupted(err)
	}
	end := s.resp.Trailer.Get(api.StreamEndHeader)
	if end == api.StreamComplete || end == api.StreamStopping && s.finished.Load() {
		return n, io.EOF
	}
	return n, s.client.interrupted(errEnds[end])
}

// Finish asks lnetd to end the stream. Read then returns what is left, and io.EOF. lnetd allows the client about 1 s to
// read it.
func (s *Stream) Finish() error {
	s.finished.Store(true)
	if c, ok := s.conn.(*conn); ok {
		if c, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
	}
	return errors.ErrUnsupported
}

// Close ends the stream.
func (s *Stream) Close() error { return s.resp.Body.Close() }

// errEnds has the reasons why a stream ends that is not complete, by the value of its trailer.
var errEnds = map[string]error{
	api.StreamStopping: errors.New("lnetd stops"),
	api.StreamFailed:   errors.New("lnetd cannot continue it"),
}

func (c *Client) interrupted(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return api.Fault{
		Code: api.CodeDaemonUnreachable, Errno: -int(syscall.ECONNRESET),
		Text: "lnetd at " + c.path + " has ended the stream", Remedy: "check whether lnetd is running, and start the command again",
	}.Because(err)
}

// stream sends a request whose reply is a stream. The caller must close it. The stream ends when ctx is done.
func (c *Client) stream(ctx context.Context, e endpoint.Endpoint[endpoint.Query, endpoint.Stream], q endpoint.Query) (*Stream, error) {
	var used net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { used = got.Conn }})
	resp, err := send(ctx, c, e, q)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.read(resp, nil)
	}
	return &Stream{client: c, resp: resp, conn: used}, nil
}

// Capture returns a recording of messages in the format pcapng.
func (c *Client) Capture(ctx context.Context, f api.CaptureFilter) (*Stream, error) {
	return c.stream(ctx, endpoint.Capture, endpoint.Query{
		"nid": f.NIDs, "net": f.Nets, "portal": f.Portals, "type": f.Types,
		"payload": f.Payload, "count": f.Count, "duration": f.Duration,
	})
}

// Events returns the events that the filter selects, as lines that each have an api.Event in JSON.
func (c *Client) Events(ctx context.Context, f api.EventFilter) (*Stream, error) {
	q := endpoint.Query{"kind": strings.Join(f.Kinds, ",")}
	if !f.Since.IsZero() {
		q["since"] = f.Since.Format(time.RFC3339Nano)
	}
	if f.Follow {
		q["follow"] = strconv.FormatBool(true)
	}
	return c.stream(ctx, endpoint.Events, q)
}
