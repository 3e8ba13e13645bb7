package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport/inproc"
)

// clientsTimeout bounds the wait for the clients' operations to end when lnetd stops. It begins after
// the farewell, the time in which clients may end by themselves.
const clientsTimeout = 10 * time.Second

// clientsTask hosts clients: other processes that use transfer machines over the node of lnetd.
type clientsTask struct {
	config config.Transport
	// listener is nil if lnetd hosts no clients.
	listener clients.Listener
	node     func() *node.Node
	log      *slog.Logger
	server   atomic.Pointer[clients.Server] // nil until the task is ready
	ready    chan struct{}
}

// newClientsTask returns a task that hosts the clients that connect to l. If l is nil, the task hosts
// no clients. If the task's Run is never called, the caller must close l.
func newClientsTask(c config.Transport, l clients.Listener, n func() *node.Node, log *slog.Logger) *clientsTask {
	return &clientsTask{config: c, listener: l, node: n, log: log, ready: make(chan struct{})}
}

// path returns the path that clients connect to. It is empty if lnetd hosts no clients.
func (t *clientsTask) path() string {
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

func (t *clientsTask) Ready() <-chan struct{} { return t.ready }
func (t *clientsTask) String() string         { return "clients" }

// Run implements Task. It hosts clients over the node, which must be up until Run returns.
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
	t.log.Info("accepting programs that use transfer machines", "socket", t.path(), "rules", len(c.Rules))
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.listener) }()
	close(t.ready)
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	// The node still works at this point, so clients that are notified of the end can complete
	// their operations during the farewell.
	closing, cancel := context.WithTimeout(context.Background(), t.config.Farewell+clientsTimeout)
	defer cancel()
	return errors.Join(err, s.Close(closing), <-served)
}
