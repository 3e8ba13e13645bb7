package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory/shared"
)

// Config configures Attach and Run.
type Config struct {
	// Socket is the path of lnetd's socket for proxies. Required.
	Socket string
	// Name is the proxy's name, which lnetd displays: 1 to 31 printable ASCII characters. Required.
	Name string
	// Net is the net to serve. NID is that of the NI; it may be zero if lnetd has one NI on the net.
	Net lnet.Net
	NID lnet.NID
	// Driver opens the interface. Its nets have the type of Net. Run needs it; Attach does not use it.
	Driver lnd.Driver
	// Device, Tunables and Options are passed to the driver (lnd.Config).
	Device   string
	Tunables lnd.Tunables
	Options  lnd.Values
	// PIDs are the PIDs of the processes that the proxy carries messages for, which Run registers. The default is
	// lnet.PIDLustre. Attach does not use them.
	PIDs []lnet.PID
	// MaxAhead is the largest payload in bytes that the driver receives before lnetd has a place for it. This
	// saves an exchange with lnetd. A negative value means none, and 0 all.
	MaxAhead int
	// Attached, if it is set, is called when the interface is open.
	Attached func(i lnd.Interface)
	// Logger receives messages for the operator. If nil, they are discarded.
	Logger *slog.Logger
}

// attachTimeout is how long lnetd may take to attach the proxy.
const attachTimeout = 30 * time.Second

// Run serves an NI until ctx is done, and then returns nil: it attaches, registers Config.PIDs, and serves with
// Config.Driver. It returns the errors of Attach, Proxy.RegisterPID and Proxy.Serve. When Run returns, the interface is
// closed, unless the driver has failed to close it.
func Run(ctx context.Context, c Config) error {
	p, err := Attach(ctx, c)
	if err != nil {
		return err
	}
	pids := c.PIDs
	if len(pids) == 0 {
		pids = []lnet.PID{lnet.PIDLustre}
	}
	for _, pid := range pids {
		if err := p.RegisterPID(ctx, pid); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return p.Serve(ctx, c.Driver)
}

// rings is the format of the ring file.
var rings = shared.Format{Submission: protocol.EntrySize, Completion: protocol.EntrySize}

// attach connects to lnetd and maps what it shares.
func attach(ctx context.Context, c *Config) (_ *net.UnixConn, _ *protocol.Attached, _ *shared.Client, _ *shared.Memory, err error) {
	request := protocol.Attach{Net: c.Net, NID: c.NID, Name: c.Name}
	if err := request.Validate(); err != nil {
		return nil, nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	var d net.Dialer
	dialled, err := d.DialContext(ctx, "unixpacket", c.Socket)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	conn := dialled.(*net.UnixConn)
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	answer, fds, err := exchange(conn, request.Append(nil))
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, nil, nil, err
	}
	attached, err := protocol.DecodeAnswer(answer)
	if err == nil && len(fds) != 4 {
		err = fmt.Errorf("lnetd has passed %d descriptors, not 4: %w", len(fds), syscall.EPROTO)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, nil, nil, err
	}
	area, err := shared.Adopt(fds[3], int64(attached.AreaSize))
	if err != nil {
		closeAll(fds[:3])
		return nil, nil, nil, nil, fmt.Errorf("area: %w", err)
	}
	ring, err := rings.Attach(shared.Files{Ring: fds[0], Submissions: fds[1], Completions: fds[2]})
	if err != nil {
		return nil, nil, nil, nil, errors.Join(fmt.Errorf("ring file: %w", err), area.Close())
	}
	return conn, attached, ring, area, nil
}

// exchange sends a record and returns the answer with its descriptors.
func exchange(conn *net.UnixConn, record []byte) (answer []byte, fds []int, err error) {
	if _, err := conn.Write(record); err != nil {
		return nil, nil, err
	}
	answer = make([]byte, protocol.MaxRecord+1)
	control := make([]byte, unix.CmsgSpace(8*4))
	n, controls, _, _, err := conn.ReadMsgUnix(answer, control)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return nil, nil, err
	}
	for k := range messages {
		if got, err := unix.ParseUnixRights(&messages[k]); err == nil {
			fds = append(fds, got...)
		}
	}
	return answer[:n], fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
