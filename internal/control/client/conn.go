package client

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// conn is a connection to lnetd, which may answer a request and close the connection before it
// has read all of the request. Writing the rest then returns no error, because net/http would
// return that error and not the answer. If there is no answer, reading returns an error.
type conn struct {
	net.Conn
	begun atomic.Bool // some of the request was written
}

// requestContext returns a context for one request. The connection that the request gets notes
// that nothing of it was written yet: if that fails, net/http repeats it on another connection.
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
