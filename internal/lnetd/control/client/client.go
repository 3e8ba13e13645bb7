package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// replyBodyMax is the maximum size of a reply body.
const replyBodyMax = 64 << 20

// Client sends requests to an lnetd through its control socket. It is safe for concurrent use. All
// errors are of type *api.Fault.
type Client struct {
	path string
	// trusts reports whether the client may use a daemon that runs as the user uid. If it is nil, the
	// client uses the daemon of any user.
	trusts func(uid int) bool
	http   http.Client
}

// New returns a client for the socket at path. The client accepts a daemon that runs as any user. New does not
// connect; requests do.
func New(path string) *Client {
	c := &Client{path: path}
	c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.dial(ctx)
	}}
	return c
}

// Find returns a client for the socket that api.FindSocket returns. The client accepts only a daemon that runs
// as root, as the caller's user or, in /run/lnetd, as the owner of that directory. This is necessary because
// another user could create a socket at the default path of the caller.
func Find() *Client {
	c := New(api.FindSocket())
	c.trusts = trusted(c.path)
	return c
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	unix, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: unix}, nil
}

// connect returns a connection with the socket, if the client may use the daemon.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: api.HeadPatience}
	unix, err := d.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, err
	}
	if c.trusts != nil {
		if owner := api.ListenerOf(unix); !c.trusts(owner.UID) {
			_ = unix.Close()
			return nil, &foreignError{owner}
		}
	}
	return unix, nil
}

// Path returns the path of the control socket.
func (c *Client) Path() string { return c.path }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends the request r to an endpoint and returns the reply. If the request fails, the reply is zero.
func call[Request, Reply any](ctx context.Context, c *Client, e endpoint.Endpoint[Request, Reply], r Request) (Reply, error) {
	return callWithin(ctx, c, e.Patience, e, r)
}

// callWithin is like call, with another timeout than that of the endpoint.
func callWithin[Request, Reply any](
	ctx context.Context, c *Client, patience time.Duration, e endpoint.Endpoint[Request, Reply], r Request,
) (reply Reply, _ error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := send(ctx, c, e, r)
	if err != nil {
		return reply, err
	}
	defer func() { _ = resp.Body.Close() }()
	err = c.read(resp, &reply)
	return reply, err
}

// change is like call for an endpoint whose reply is empty.
func change[Request any](ctx context.Context, c *Client, e endpoint.Endpoint[Request, api.Done], r Request) error {
	_, err := call(ctx, c, e, r)
	return err
}

// send sends a request and returns the response. The caller must read and close the body. The net types that
// lnetd names get these names in this process, so that it can read the NIDs of the body.
func send[Request, Reply any](
	ctx context.Context, c *Client, e endpoint.Endpoint[Request, Reply], r Request,
) (*http.Response, error) {
	path := e.Path
	var body io.Reader
	if q, ok := any(r).(endpoint.Query); ok {
		path = q.Target(path)
	} else {
		var b bytes.Buffer
		j := json.NewEncoder(&b)
		j.SetEscapeHTML(false) // HTML escaping would make six bytes of one
		if err := j.Encode(r); err != nil {
			return nil, c.garbled(err)
		}
		body = bytes.NewReader(b.Bytes())
	}
	req, err := http.NewRequestWithContext(requestContext(ctx), e.Method, "http://lnetd"+path, body)
	if err != nil {
		return nil, c.garbled(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p, ok := any(&r).(interface{ Preference() *bool }); ok && *p.Preference() {
		req.Header.Set(api.PreferHeader, api.PreferMinimal)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if err := api.TakeNetTypes(resp.Header); err != nil {
		_ = resp.Body.Close()
		return nil, c.garbled(err)
	}
	return resp, nil
}

// read decodes the body of a response into reply. If the response is a refusal, read returns its fault.
func (c *Client) read(resp *http.Response, reply any) error {
	b, err := readBody(resp)
	switch {
	case err != nil:
		return c.unreachable(err)
	case len(b) > replyBodyMax:
		return c.garbled(fmt.Errorf("the reply of lnetd is longer than %d bytes", replyBodyMax))
	}
	if resp.StatusCode != http.StatusOK {
		var r api.Refusal
		if err := json.Unmarshal(b, &r); err != nil || r.Error == nil {
			return c.garbled(fmt.Errorf("status %s", resp.Status))
		}
		return r.Error
	}
	if err := json.Unmarshal(b, reply); err != nil {
		return c.garbled(err)
	}
	return nil
}

// readBody returns the body of a response. If it is longer than replyBodyMax, readBody may return only its
// beginning, which is longer too.
func readBody(resp *http.Response) ([]byte, error) {
	if n := resp.ContentLength; n >= 0 && n <= replyBodyMax {
		b := make([]byte, n)
		_, err := io.ReadFull(resp.Body, b)
		return b, err
	}
	return io.ReadAll(io.LimitReader(resp.Body, replyBodyMax+1))
}

func (c *Client) garbled(err error) error {
	return api.Fault{
		Code:   api.CodeInternal,
		Errno:  -int(syscall.EPROTO),
		Text:   "invalid answer on " + c.path,
		Remedy: "check that lnetd listens there, and that it has the same version",
	}.Because(err)
}

func (c *Client) unreachable(err error) error {
	f := api.Fault{
		Code:   api.CodeDaemonUnreachable,
		Errno:  -int(api.Errno(err)),
		Text:   "cannot reach lnetd at " + c.path,
		Remedy: "give the right socket with --control-socket or LNETD_CONTROL_SOCKET",
	}
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
		f.Cause = foreign.Error()
		f.Remedy = "if you trust that user, give the socket with --control-socket or LNETD_CONTROL_SOCKET"
		return f.Because(err)
	}
	if dial := (*net.OpError)(nil); errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dial) {
		return api.Fault{
			Code:   api.CodeBusy,
			Errno:  -int(syscall.ETIMEDOUT),
			Text:   "lnetd does not answer in time",
			Cause:  "it received the request on " + c.path,
			Remedy: "the request may still be executed: check its effect before you try again",
		}.Because(err)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Cause = api.Strerror(errno)
		switch errno {
		case syscall.ENOENT, syscall.ECONNREFUSED:
			f.Remedy = "start lnetd, or " + f.Remedy
		case syscall.EACCES:
			f.Remedy = "run as the user or group of lnetd, or " + f.Remedy
		}
	} else if op := (*url.Error)(nil); errors.As(err, &op) {
		f.Cause = op.Err.Error()
	}
	return f.Because(err)
}
