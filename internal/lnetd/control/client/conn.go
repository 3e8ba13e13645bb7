package client

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// conn is a connection to lnetd. lnetd may answer a request and close the connection before it has
// read the whole request. Write then returns no error for the rest, because net/http would return
// that error instead of the response. If there is no response, Read returns an error.
type conn struct {
	net.Conn
	begun atomic.Bool // part of the request was written
}

// requestContext returns a context for one request. It marks the request's connection as not
// written to, so that net/http retries on another connection if the first write fails.
func requestContext(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if c, ok := got.Conn.(*conn); ok {
			c.begun.Store(false)
		}
	}})
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.begun.Store(true)
	}
	if c.begun.Load() && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return len(b), nil
	}
	return n, err
}
