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

	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// dialRetry is the delay before another attempt if too many programs connect at once.
const dialRetry = 5 * time.Millisecond

// dial connects to a socket. It blocks until ctx ends.
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
		// A non-blocking connect to a socket of this type does not wait for room in the listener's queue.
		select {
		case <-time.After(dialRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// remedies maps errors of Open to a remedy.
var remedies = []struct {
	errno       syscall.Errno
	dial, hello string
}{
	{
		syscall.ENOENT,
		"there is no such socket: start lnetd, or say where its socket is", "",
	},
	{
		syscall.ENOTDIR,
		"a part of the path is no directory: say where lnetd's socket is", "",
	},
	{
		syscall.ECONNREFUSED,
		"nobody listens: lnetd has ended, start it again", "",
	},
	{
		syscall.EACCES,
		"this user may not connect: he has to be in the socket's group",
		"lnetd has no rule for this user: its administrator can add one",
	},
	{
		syscall.EPROTOTYPE,
		"this is a socket of another kind, such as the one for lnetdctl", "",
	},
	{
		syscall.EPROTO,
		"", "lnetd and this program are not made for each other: one of them is too old",
	},
	{
		syscall.EDQUOT,
		"", "this user has as many connections as lnetd's rules let him have",
	},
	{
		syscall.EPIPE,
		"", "lnetd has closed the connection at once",
	},
}

// pathMax is the maximum length of a socket's path in bytes.
const pathMax = 107

// pathProblem returns what is wrong with the path itself, if the errno of connect does not show it. Otherwise
// it returns "".
func pathProblem(path string, err error) string {
	if len(path) > pathMax && errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("the path has %d bytes, but at most %d are possible: take a shorter one, or a link", len(path), pathMax)
	}
	if info, e := os.Stat(path); errors.Is(err, syscall.ECONNREFUSED) && e == nil && info.Mode()&fs.ModeSocket == 0 {
		return "this is no socket: say where lnetd's socket is"
	}
	return ""
}

// explainDial adds the socket's path and a remedy to an error of Open.
func explainDial(path string, err error) error {
	var dialled *net.OpError
	atDial := errors.As(err, &dialled)
	if atDial && dialled.Err != nil {
		err = dialled.Err // the rest of it repeats the path
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

// exchangeHello exchanges HELLO with lnetd.
func (d *domain) exchangeHello(ctx context.Context) error {
	hello := protocol.Hello{
		Lowest: protocol.Version, Highest: protocol.Version, Wanted: protocol.FeatPosted | protocol.FeatMatchBits, Program: d.core.config.Program,
	}
	if d.core.config.PollTime > 0 {
		hello.Wanted |= protocol.FeatPolling
	}
	var reply protocol.HelloReply
	before := shm.Now()
	if err := d.connection.request(ctx, &hello, &reply, nil); err != nil {
		return err
	}
	after := shm.Now()
	if err := hello.Check(&reply); err != nil {
		return err
	}
	d.hello = reply
	d.longerDescriptors(int64(reply.Limits.DescriptorSize)) // a notice may have raised it already
	d.clock = newClock(before, after, int64(reply.Now))
	return nil
}
