package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/internal/lnetd/unixsocket"
	"github.com/lnetd/lnetd/transport/remote"
)

// Names of the sockets that lnetd listens on. They are the FileDescriptorName= of sockets that
// systemd creates, and the names under which systemd keeps sockets that lnetd has created.
const (
	controlSocketName = "control"
	clientsSocketName = "clients"
	proxiesSocketName = "proxies"
	metricsSocketName = "metrics"
)

// sockets are the sockets that lnetd listens on, except those of NIs.
type sockets struct {
	control *unixsocket.Listener
	clients clients.Listener     // nil if lnetd hosts no clients
	proxies *unixsocket.Listener // nil if no net is served by proxies
	metrics net.Listener         // nil if metrics are not served
}

// listen creates the sockets that lnetd listens on, or uses those that systemd passed. Even if it
// returns an error, some sockets may be open, so the caller must always call close.
func (d *Daemon) listen() (s sockets, err error) {
	path := d.config.ControlSocket
	if path == "" {
		path = api.DefaultSocket()
	}
	// The control socket comes first. If another lnetd runs, this fails before anything of that
	// lnetd is disturbed.
	if s.control, err = d.listenControl(path); err != nil {
		return s, err
	}
	if d.config.Transport.Enabled {
		l, err := d.listenClients(s.control.Path())
		if err != nil {
			return s, err
		}
		s.clients = l
	}
	if len(d.config.Proxies.NetTypes) > 0 {
		if s.proxies, err = d.listenProxies(s.control.Path()); err != nil {
			return s, err
		}
	}
	if s.metrics, err = d.listenMetrics(); err != nil {
		return s, err
	}
	if names := d.systemd.CloseRest(); len(names) > 0 {
		d.log.Warn("systemd passed sockets that lnetd does not use; connections to them are not answered", "names", names,
			"remedy", "FileDescriptorName= of a socket unit is control, clients, proxies or metrics; clients needs lnetd: transport: enabled, and proxies needs lnetd: proxies: net_types")
	}
	return s, nil
}

// close closes the sockets. It ignores those that tasks have closed already.
func (s *sockets) close() {
	if s.control != nil {
		_ = s.control.Close()
	}
	if s.clients != nil {
		_ = s.clients.Close()
	}
	if s.proxies != nil {
		_ = s.proxies.Close()
	}
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
}

// listenControl returns a listener on the control socket: one that systemd has created or kept, or
// otherwise a new one at path.
func (d *Daemon) listenControl(path string) (*unixsocket.Listener, error) {
	l, err := d.unixListener(unixSocket{
		name: controlSocketName, kind: systemd.UnixStream, path: path, group: -1,
		listen: func() (*unixsocket.Listener, error) { return server.Listen(path) },
	})
	if err == nil && l.Path() != path {
		d.log.Info("using the control socket from systemd", "path", l.Path(), "instead_of", path)
	}
	return l, err
}

// listenClients returns a listener on the socket for clients: one that systemd has created or kept, or
// otherwise a new one at the configured path. Without a configured path, the socket is in the
// directory of the control socket, whose path is control.
func (d *Daemon) listenClients(control string) (*unixsocket.Listener, error) {
	c := &d.config.Transport
	path := cmp.Or(c.Socket, besideControl(control, remote.SocketName))
	return d.unixListener(unixSocket{
		name: clientsSocketName, kind: systemd.UnixPacket, path: path, group: c.Group,
		listen: func() (*unixsocket.Listener, error) {
			l, err := clients.Listen(path, c.Group)
			if err != nil {
				return nil, socketUnusable("clients", "transport", `disable "transport"`, path, err)
			}
			return l, nil
		},
	})
}

// besideControl returns the default path of a socket with the given name in the directory of the control socket.
// If the control socket has its default name, a client finds the socket for clients there (remote.FindSocket).
// Otherwise the name is derived from the name of the control socket, so that two lnetd with different control
// sockets do not share other sockets.
func besideControl(control, name string) string {
	dir, own := filepath.Split(control)
	if own == filepath.Base(api.DefaultSocket()) {
		return filepath.Join(dir, name)
	}
	return filepath.Join(dir, strings.TrimSuffix(own, ".sock")+"-"+name)
}

// socketUnusable returns the error for an operator if the socket for clients or proxies cannot be used. The
// section in "lnetd" configures it. Without the socket, lnetd can run if the operator does what without says.
func socketUnusable(whose, section, without, path string, err error) error {
	other := fmt.Sprintf("set another path in \"lnetd: %s: socket\"", section)
	f := api.Fault{
		Code: api.CodeClientsSocket, Errno: -int(api.Errno(err)), Text: fmt.Sprintf("the socket for %s %s cannot be used", whose, path),
		Remedy: fmt.Sprintf("check the directory and its permissions, %s, or %s", other, without),
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Remedy = "stop the process that listens there, or " + other
	}
	if full := api.FullDisk(path, err); full != "" {
		f.Remedy = full + ", or " + other
	}
	return f.Because(err)
}

// unixSocket describes a Unix socket that lnetd needs.
type unixSocket struct {
	name   string                               // the name of the socket in systemd
	kind   systemd.Kind                         // what a socket from systemd must be
	path   string                               // where to create the socket if systemd does not have it
	group  int                                  // the group that a kept socket must have; negative means lnetd's own group
	listen func() (*unixsocket.Listener, error) // creates the socket
}

func (d *Daemon) unixListener(s unixSocket) (*unixsocket.Listener, error) {
	f, err := d.passed(s.name, s.kind)
	if err != nil {
		return nil, err
	}
	if f != nil {
		defer func() { _ = f.Close() }()
		l, err := unixsocket.Adopt(f)
		if err != nil {
			return nil, wrongSocket(s.name, s.kind, err)
		}
		return l, nil
	}
	if l := d.storedUnix(&s); l != nil {
		return l, nil
	}
	l, err := s.listen()
	if err != nil {
		return nil, err
	}
	l.LeaveFile(d.storeListener(s.name, l))
	return l, nil
}

// passed returns the socket that a systemd socket unit has created under a name, or nil if there is
// none. It returns an error if the socket is not of the given kind. The caller must close the file.
func (d *Daemon) passed(name string, kind systemd.Kind) (*os.File, error) {
	files := d.systemd.Passed(name)
	if len(files) == 0 {
		return nil, nil
	}
	err := kind.Check(files[0])
	if err == nil && len(files) > 1 {
		err = fmt.Errorf("systemd passed %d sockets, but lnetd uses only one: %w", len(files), syscall.EINVAL)
	}
	if err == nil {
		return files[0], nil
	}
	for _, f := range files {
		_ = f.Close()
	}
	return nil, wrongSocket(name, kind, err)
}

func wrongSocket(name string, kind systemd.Kind, err error) error {
	f := api.Fault{
		Code: api.CodeInheritedSocket, Errno: -int(api.Errno(err)),
		Text:   fmt.Sprintf("the socket %q from systemd cannot be used", name),
		Remedy: fmt.Sprintf("the socket unit needs one line %s, FileDescriptorName=%s and Accept=no", kind.Line(), name),
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Remedy = "another lnetd already had its socket there: stop that process"
	}
	return f.Because(err)
}

// fileListener is a listener whose File method returns a duplicate of its socket.
type fileListener interface {
	File() (*os.File, error)
}

// storeListener asks systemd to keep a listener's socket under a name, so that the next lnetd uses the
// same socket. It reports whether systemd keeps it.
func (d *Daemon) storeListener(name string, l fileListener) bool {
	f, err := l.File()
	if err != nil {
		d.log.Warn("systemd does not keep a socket of lnetd; programs cannot connect to it while lnetd restarts", "socket", name, "err", err)
		return false
	}
	defer func() { _ = f.Close() }()
	return d.systemd.Keep(name, f)
}

// storedListener calls use with each socket of the given kind that systemd has kept under a name, until
// use returns true. If use accepts none of the sockets, systemd is asked to close them.
func (d *Daemon) storedListener(name string, kind systemd.Kind, use func(*os.File) bool) {
	files := d.systemd.Kept(name)
	used := false
	for _, f := range files {
		used = !used && kind.Check(f) == nil && use(f) || used
		_ = f.Close()
	}
	if len(files) > 0 && !used {
		d.log.Info("closing a kept socket that is no longer used", "socket", name)
		d.systemd.Drop(name)
	}
}

func (d *Daemon) storedUnix(s *unixSocket) (found *unixsocket.Listener) {
	d.storedListener(s.name, s.kind, func(f *os.File) bool {
		l, err := unixsocket.Adopt(f)
		if err != nil {
			return false
		}
		reachable := l.Reachable()
		if reachable && l.Path() == s.path && ofGroup(s.path, s.group) {
			found = l
			d.log.Debug("using a socket that systemd kept", "path", s.path)
			return true
		}
		l.LeaveFile(!reachable) // Close removes the file only if its path leads to a listener
		_ = l.Close()
		return false
	})
	return found
}

// ofGroup reports whether a file belongs to a group. A negative group means lnetd's own.
func ofGroup(path string, group int) bool {
	if group < 0 {
		group = os.Getegid()
	}
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Gid) == group
}

// listenMetrics returns the listener for metrics: one that systemd has created or kept, or otherwise a
// new one at the configured address. It returns nil if metrics are not served.
func (d *Daemon) listenMetrics() (net.Listener, error) {
	f, err := d.passed(metricsSocketName, systemd.TCP)
	if err != nil {
		return nil, err
	}
	if f != nil {
		defer func() { _ = f.Close() }()
		l, err := net.FileListener(f)
		if err != nil {
			return nil, wrongSocket(metricsSocketName, systemd.TCP, err)
		}
		return l, nil
	}
	addr := d.config.MetricsAddr
	if addr == "" {
		return nil, nil
	}
	var found net.Listener
	d.storedListener(metricsSocketName, systemd.TCP, func(f *os.File) bool {
		l, err := net.FileListener(f)
		if err != nil {
			return false
		}
		if isAt(l.Addr(), addr) {
			found = l
			return true
		}
		_ = l.Close()
		return false
	})
	if found != nil {
		return found, nil
	}
	l, err := newMetricsListener(addr)
	if err != nil {
		return nil, err
	}
	if l, ok := l.(fileListener); ok {
		d.storeListener(metricsSocketName, l)
	}
	return l, nil
}

// isAt reports whether a listener with the address have can be used instead of a new one at the address
// want. Port 0 in want matches any port.
func isAt(have net.Addr, want string) bool {
	at, err := net.ResolveTCPAddr("tcp", want)
	tcp, ok := have.(*net.TCPAddr)
	if err != nil || !ok || at.Port != 0 && at.Port != tcp.Port {
		return false
	}
	if len(at.IP) == 0 { // ":9100" means all addresses
		return tcp.IP.IsUnspecified()
	}
	return tcp.IP.Equal(at.IP)
}

func newMetricsListener(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if at, err := net.ResolveTCPAddr("tcp", addr); err == nil {
			return nil, portInUse(at.AddrPort(), "set another address with --metrics-addr")
		}
	}
	return nil, api.Fault{
		Code: api.CodePortForbidden, Errno: -int(server.Errno(err)),
		Text:   fmt.Sprintf("metrics cannot be served on %s", addr),
		Remedy: "set another address with --metrics-addr",
	}.Because(err)
}
