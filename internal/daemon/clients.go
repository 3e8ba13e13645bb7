package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote"
)

// clientsPatience bounds the end of operations of clients that are told to go, beyond
// what they have for their farewell.
const clientsPatience = 10 * time.Second

// clientsSocketName is what systemd calls a socket for clients that it has made
// (FileDescriptorName).
const clientsSocketName = "clients"

// clientsTask hosts transfer machines for other processes.
type clientsTask struct {
	config config.Transport
	// listener is nil if nobody is hosted.
	listener clients.Listener
	node     func() *node.Node
	log      *slog.Logger
	server   atomic.Pointer[clients.Server] // nil until the task is ready
	ready    chan struct{}
}

// newClientsTask makes the task. Its listener, which the caller closes if the task does not
// run, is one of those that systemd has made, or the configured one beside the control
// socket at the path, whose directory is there.
func newClientsTask(
	c config.Transport, inherited []*os.File, control string, n func() *node.Node, log *slog.Logger,
) (*clientsTask, error) {
	t := &clientsTask{config: c, node: n, log: log, ready: make(chan struct{})}
	if !c.Enabled {
		return t, nil
	}
	for _, f := range inherited {
		if f.Name() != clientsSocketName {
			continue
		}
		l, err := inheritedListener(f)
		if err != nil {
			return nil, socketUnusable("the socket for clients that systemd has made", err)
		}
		t.listener = l
		return t, nil
	}
	path := c.Socket
	if path == "" {
		path = clientsSocket(control)
	}
	l, err := clients.Listen(path, c.Group)
	if err != nil {
		return nil, socketUnusable("the socket for clients "+path, err)
	}
	t.listener = l
	return t, nil
}

// clientsSocket is where clients connect if nothing is said: where remote.FindSocket looks
// for it, if the control socket is at its default place, and else beside it, under a name
// that no other lnetd has.
func clientsSocket(control string) string {
	dir, name := filepath.Split(control)
	if name == filepath.Base(api.DefaultSocket()) {
		return filepath.Join(dir, remote.SocketName)
	}
	return filepath.Join(dir, strings.TrimSuffix(name, ".sock")+"-"+remote.SocketName)
}

// inheritedFiles are those that systemd has passed to this process, once.
func inheritedFiles() []*os.File { return activation.Files(true) }

// inheritedListener is a copy of f as a listener, which leaves the socket file to systemd.
func inheritedListener(f *os.File) (*net.UnixListener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	unix, ok := l.(*net.UnixListener)
	if ok && unix.Addr().Network() == "unixpacket" {
		return unix, nil
	}
	_ = l.Close()
	return nil, fmt.Errorf("it has to be made with ListenSequentialPacket=: %w", syscall.EPROTOTYPE)
}

func socketUnusable(what string, err error) error {
	f := api.Fault{
		Code: api.CodeClientsSocket, Errno: -int(api.Errno(err)), Text: what + " cannot be used",
		Remedy: "check the directory and its rights, name another path in \"lnetd: transport: socket\", or switch that off",
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Remedy = "stop the process that listens there, or name another path in \"lnetd: transport: socket\""
	}
	return f.Because(err)
}

// path is where clients connect; empty: nowhere.
func (t *clientsTask) path() string {
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

func (t *clientsTask) Ready() <-chan struct{} { return t.ready }
func (t *clientsTask) String() string         { return "clients" }

// Run hosts clients over the node, which is up and stays so until Run has returned.
func (t *clientsTask) Run(ctx context.Context) error {
	if t.listener == nil {
		close(t.ready)
		<-ctx.Done()
		return nil
	}
	c := t.config.Clients()
	c.Core, c.Logger = inproc.New(t.node()), t.log
	s, err := clients.New(c)
	if err != nil {
		return err
	}
	t.server.Store(s)
	t.log.Info("transfer machines for other processes", "socket", t.path(), "rules", len(c.Rules))
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.listener) }()
	close(t.ready)
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	// Clients are told to go, and have their farewell, while the node still works.
	closing, cancel := context.WithTimeout(context.Background(), t.config.Farewell+clientsPatience)
	defer cancel()
	return errors.Join(err, s.Close(closing), <-served)
}
