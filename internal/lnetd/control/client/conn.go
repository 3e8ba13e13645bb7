package client

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// conn is a connection to lnetd. If lnetd answers a request and closes the connection before it has read the
// whole request, Write returns no error for the rest. Otherwise net/http would return that error instead of
// lnetd's response. If lnetd has sent no response, Read returns an error.
type conn struct {
	net.Conn
	begun atomic.Bool // at least a part of the request was written
}

// requestContext returns a context for one request. When the request gets its connection, the context resets
// conn.begun. So if the first write on a connection fails, Write returns the error, and net/http retries on
// another connection.
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
