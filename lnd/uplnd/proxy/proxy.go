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

// Config configures Run.
type Config struct {
	// Socket is the path of lnetd's socket for proxies. Required.
	Socket string
	// Name is the proxy's name, which lnetd displays: 1 to 31 printable ASCII characters. Required.
	Name string
	// Net is the net to serve. NID is that of the NI; it may be zero if lnetd has one NI on the net.
	Net lnet.Net
	NID lnet.NID
	// Driver opens the interface. Required. Its nets have the type of Net.
	Driver lnd.Driver
	// Device, Tunables and Options are passed to the driver (lnd.Config).
	Device   string
	Tunables lnd.Tunables
	Options  lnd.Values
	// PIDs are the PIDs of the processes that the proxy carries messages for. The default is lnet.PIDLustre.
	PIDs []lnet.PID
	// Allocated, if it is set, makes Run allocate one more PID, and is called with it.
	Allocated func(pid lnet.PID)
	// MaxAhead is the largest payload in bytes that the driver receives before lnetd has a place for it. This
	// saves an exchange with lnetd. A negative value means none, and 0 all.
	MaxAhead int
	// Attached, if it is set, is called when the interface is open and lnetd knows the PIDs.
	Attached func(i lnd.Interface)
	// Logger receives messages for the operator. If nil, they are discarded.
	Logger *slog.Logger
}

// attachTimeout is how long lnetd may take to attach the proxy.
const attachTimeout = 30 * time.Second

// Run serves an NI until ctx is done, and then returns nil. It returns an error if it cannot be attached, also
// because ctx is done meanwhile, if the driver fails to open the interface or to close it within half a minute,
// or if the connection to lnetd ends. A *protocol.Failure is lnetd's reason; ENODEV and EAGAIN mean that the NI
// does not exist yet and that the proxy is in quarantine. When Run returns, the interface is closed, unless the
// driver has failed to close it.
func Run(ctx context.Context, c Config) error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxAhead == 0 {
		c.MaxAhead = lnet.MTU
	}
	conn, attached, ring, area, err := attach(ctx, &c)
	if err != nil {
		return fmt.Errorf("proxy: attach to lnetd at %s: %w", c.Socket, err)
	}
	g := newGuest(&c, attached, ring, area)
	err = g.serve(ctx, conn, attached)
	if errors.Is(err, errOpen) {
		return errors.Join(err, ring.Close()) // the driver may still access the area
	}
	return errors.Join(err, ring.Close(), area.Close())
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
