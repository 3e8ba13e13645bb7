package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// dialRetry is the delay before dial tries again because lnetd's queue of new connections is full.
const dialRetry = 5 * time.Millisecond

// dial connects to the socket at path. It may block until ctx ends.
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unixpacket", path)
		switch {
		case err == nil:
			return conn.(*net.UnixConn), nil
		case !errors.Is(err, syscall.EAGAIN):
			return nil, err
		}
		// EAGAIN means that the listener's queue is full. A non-blocking connect to a socket of this type
		// does not wait for room in it.
		select {
		case <-time.After(dialRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// remedies maps errors of Open to texts that state the problem and a remedy: dial for an error of connect,
// hello for an error of the first request. An empty text means that the error does not occur there.
var remedies = []struct {
	errno       syscall.Errno
	dial, hello string
}{
	{
		syscall.ENOENT,
		"the socket does not exist: start lnetd, or give the path of its socket", "",
	},
	{
		syscall.ENOTDIR,
		"a part of the path is not a directory: give the path of lnetd's socket", "",
	},
	{
		syscall.ECONNREFUSED,
		"no process listens on the socket: start lnetd again", "",
	},
	{
		syscall.EACCES,
		"this user may not connect: add the user to the group of the socket",
		"lnetd has no rule for this user: its administrator can add one",
	},
	{
		syscall.EPROTOTYPE,
		"this is a socket of another type, such as the one for lnetdctl: give the path of lnetd's socket for programs", "",
	},
	{
		syscall.EPROTO,
		"", "lnetd and this program have no protocol version in common: one of them is too old",
	},
	{
		syscall.EOPNOTSUPP,
		"", "this lnetd is older than this program: upgrade lnetd",
	},
	{
		syscall.EDQUOT,
		"", "this user already has the maximum number of connections that lnetd's rules allow",
	},
	{
		syscall.EPIPE,
		"", "lnetd closed the connection at once",
	},
}

// pathMax is the maximum length of a socket's path in bytes.
const pathMax = 107

// pathProblem returns a text about a problem of the socket's path that the errno of connect does not show: it
// is too long, or does not name a socket. It returns "" if there is no such problem.
func pathProblem(path string, err error) string {
	if len(path) > pathMax && errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("the path has %d bytes, but at most %d are possible: use a shorter path or a symbolic link", len(path), pathMax)
	}
	if info, e := os.Stat(path); errors.Is(err, syscall.ECONNREFUSED) && e == nil && info.Mode()&fs.ModeSocket == 0 {
		return "not a socket: give the path of lnetd's socket"
	}
	return ""
}

// explainDial adds the socket's path and a remedy to an error of Open.
func explainDial(path string, err error) error {
	var dialled *net.OpError
	atDial := errors.As(err, &dialled)
	if atDial && dialled.Err != nil {
		err = dialled.Err // the other fields of dialled repeat the path
		if words := pathProblem(path, err); words != "" {
			return fmt.Errorf("remote: %s: %s: %w", path, words, err)
		}
	}
	for _, a := range remedies {
		words := a.hello
		if atDial {
			words = a.dial
		}
		if words != "" && errors.Is(err, a.errno) {
			return fmt.Errorf("remote: %s: %s: %w", path, words, err)
		}
	}
	return fmt.Errorf("remote: connect to lnetd at %s: %w", path, err)
}

// exchangeHello sends HELLO to lnetd, checks the reply, and sets the domain's limits and clock.
func (d *domain) exchangeHello(ctx context.Context) error {
	hello := protocol.Hello{
		Lowest: protocol.Version, Highest: protocol.Version, Required: protocol.FeatOverflow,
		Wanted: protocol.FeatPosted | protocol.FeatMatchBits | protocol.FeatFutex, Program: d.core.config.Program,
	}
	if d.core.config.PollTime > 0 {
		hello.Wanted |= protocol.FeatPolling
	}
	var reply protocol.HelloReply
	before := shared.Now()
	if err := d.connection.request(ctx, &hello, &reply, nil); err != nil {
		return err
	}
	after := shared.Now()
	if err := hello.Check(&reply); err != nil {
		return err
	}
	d.hello = reply
	d.longerDescriptors(int64(reply.Limits.DescriptorSize)) // a notice may already have set a larger size
	d.clock = newClock(before, after, int64(reply.Now))
	return nil
}
