package control

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
)

// replyBodyMax bounds what a client reads of one reply.
const replyBodyMax = 64 << 20

// Client asks an lnetd through its control socket. It is safe for concurrent
// use. All errors are Faults.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a client for the socket at path; nothing is connected yet.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: headPatience}
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Version asks who the daemon is.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.call(ctx, replyPatience, http.MethodGet, "/v1/version", nil, &v)
	return v, err
}

// Nets asks for the nets, or, with a name, for one.
func (c *Client) Nets(ctx context.Context, name string) ([]Net, error) {
	path := "/v1/nets"
	if name != "" {
		path += "?" + url.Values{"net": {name}}.Encode()
	}
	var n Nets
	err := c.call(ctx, replyPatience, http.MethodGet, path, nil, &n)
	return n.Nets, err
}

// Ping has the daemon ping nodes and returns one result for each, in order.
func (c *Client) Ping(ctx context.Context, r PingRequest) ([]PingResult, error) {
	each := PingTimeout
	if r.Timeout > 0 {
		each = time.Duration(min(r.Timeout, PingTimeoutMax.Seconds()) * float64(time.Second))
	}
	var p PingReply
	err := c.call(ctx, replyPatience+time.Duration(len(r.NIDs))*each, http.MethodPost, "/v1/ping", r, &p)
	if err == nil && len(p.Results) != len(r.NIDs) {
		err = c.garbled(fmt.Errorf("%d results for %d targets", len(p.Results), len(r.NIDs)))
	}
	return p.Results, err
}

// call makes one request; reply is filled only if the answer is 200.
func (c *Client) call(ctx context.Context, patience time.Duration, method, path string, body, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return c.garbled(err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lnetd"+path, content)
	if err != nil {
		return c.garbled(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, replyBodyMax))
	if err != nil {
		return c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		var r refusal
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

func (c *Client) garbled(err error) error {
	return Fault{
		Code:   CodeInternal,
		Errno:  -int(syscall.EPROTO),
		Text:   "no sensible answer on " + c.path,
		Remedy: "check that lnetd listens there, and that it is of the same version",
	}.Because(err)
}

func (c *Client) unreachable(err error) error {
	f := Fault{
		Code:   CodeDaemonUnreachable,
		Errno:  -int(Errno(err)),
		Text:   "cannot reach lnetd at " + c.path,
		Remedy: "name the right socket with --control-socket or LNETD_CONTROL_SOCKET",
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Cause = Strerror(errno)
		switch errno {
		case syscall.ENOENT, syscall.ECONNREFUSED:
			f.Remedy = "start lnetd, or " + f.Remedy
		case syscall.EACCES:
			f.Remedy = "run as lnetd's user or in its group, or " + f.Remedy
		}
	} else if op := (*url.Error)(nil); errors.As(err, &op) {
		f.Cause = op.Err.Error()
	}
	return f.Because(err)
}
