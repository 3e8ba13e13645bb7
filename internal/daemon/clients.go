package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

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

// newClientsTask makes the task, with a listener that the caller closes if the task does not
// run; nil: nobody is hosted.
func newClientsTask(c config.Transport, l clients.Listener, n func() *node.Node, log *slog.Logger) *clientsTask {
	return &clientsTask{config: c, listener: l, node: n, log: log, ready: make(chan struct{})}
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

func socketUnusable(path string, err error) error {
	f := api.Fault{
		Code: api.CodeClientsSocket, Errno: -int(api.Errno(err)), Text: "the socket for clients " + path + " cannot be used",
		Remedy: "check the directory and its rights, name another path in \"lnetd: transport: socket\", or switch that off",
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Remedy = "stop the process that listens there, or name another path in \"lnetd: transport: socket\""
	}
	if full := api.FullDisk(path, err); full != "" {
		f.Remedy = full + ", or name another path in \"lnetd: transport: socket\""
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
