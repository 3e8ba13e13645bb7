package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/internal/control/server"
	"github.com/lnetd/lnetd/internal/metrics"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/numa"
)

// stopPatience bounds an orderly end, in which clients have their farewell; the node takes
// most of the rest, when peers do not answer any more. Beside a farewell as long as by
// default it is less than the 90 s that systemd waits by default.
func stopPatience(c *config.Config) time.Duration {
	return c.Transport.Farewell + clientsPatience + selftestPatience + closePatience + 5*time.Second
}

// stopping is what systemd is told when the end begins: that, and how long it may take.
func stopping(patience time.Duration) string {
	return fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, patience.Microseconds())
}

// Daemon is lnetd.
type Daemon struct {
	config  config.Config
	drivers Drivers
	log     *slog.Logger
	started time.Time
	// notify tells systemd; a test listens instead.
	notify func(state string)
	// sysfs is where the machine's layout is read.
	sysfs fs.FS
	// inherited are files that systemd has passed to this process.
	inherited func() []*os.File
	// programs use the node in this process.
	programs []program

	level *slog.LevelVar // nil: Reload leaves it

	reloads sync.Mutex // held by Reload; before all else that is held

	mu      sync.Mutex    // guards the rest; nothing waits for anything while it is held
	loaded  config.Config // config with what Reload has changed around the node
	clients *clientsTask  // nil before Run
	node    *nodeTask     // nil before Run
}

// program is part of this process and no part of lnetd.
type program struct {
	name string
	run  func(context.Context, *node.Node) error
}

// New returns a daemon that will run with the given configuration, for which the
// options of the drivers were known, and log to log; nil discards.
func New(c config.Config, drivers Drivers, log *slog.Logger) *Daemon {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{
		config: c, drivers: drivers, log: log, started: time.Now(), sysfs: os.DirFS("/sys"), inherited: inheritedFiles,
		loaded: c,
	}
	d.notify = d.notifySystemd
	return d
}

// Use adds a program that uses the node in this process, before Run. It is called
// once the node is up, and must return when ctx is done; if it ends earlier so does
// the daemon.
func (d *Daemon) Use(name string, run func(ctx context.Context, n *node.Node) error) {
	d.programs = append(d.programs, program{name: name, run: run})
}

// Run brings the node up, serves it until ctx is done, and takes it down in
// good order, which it bounds. It returns nil if all went well; what an
// operator can do something about is a *api.Fault. A second Run is not
// possible.
func (d *Daemon) Run(ctx context.Context) error {
	for _, w := range d.config.Warnings {
		d.log.Warn("configuration: " + w.Error())
	}
	path := d.config.ControlSocket
	if path == "" {
		path = api.DefaultSocket()
	}
	// The socket comes first: it is what tells a second lnetd from the first,
	// before that one has disturbed anything.
	socket, err := server.Listen(path)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	inherited := d.inherited()
	defer func() {
		for _, f := range inherited {
			_ = f.Close()
		}
	}()

	up := newNodeTask(d.config, d.drivers, d.machine(), d.log)
	lst := newSelftestTask(d.config.Selftest, func() *node.Node { return up.Node }, d.log)
	guests, err := newClientsTask(d.config.Transport, inherited, path, func() *node.Node { return up.Node }, d.log)
	if err != nil {
		return err
	}
	if guests.listener != nil {
		defer func() { _ = guests.listener.Close() }()
	}
	d.host(guests, up)
	tasks := []Task{up, lst, guests}
	for _, p := range d.programs {
		tasks = append(tasks, newServeTask(p.name, func(ctx context.Context) error { return p.run(ctx, up.Node) }))
	}
	if d.config.MetricsAddr != "" {
		l, err := listenMetrics(d.config.MetricsAddr)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		tasks = append(tasks, d.metricsTask(l, watched{up, guests}))
	}
	tasks = append(tasks, newServeTask("control", func(ctx context.Context) error {
		s := server.Server{Backend: newBackend(d, up, lst, guests), Logger: d.log}
		return s.Serve(ctx, socket)
	}))
	patience := stopPatience(&d.config)
	return run(ctx, tasks,
		func() {
			d.log.Info("ready", "control_socket", path, "version", api.BuildVersion(), "pid", os.Getpid())
			d.notify(daemon.SdNotifyReady)
		},
		func() {
			d.log.Info("stopping")
			d.notify(stopping(patience))
		}, patience)
}

// metricsTask serves metrics on a listener.
func (d *Daemon) metricsTask(l net.Listener, w watched) Task {
	d.log.Info("metrics", "address", l.Addr().String(), "path", "/metrics")
	return newServeTask("metrics", func(ctx context.Context) error {
		return metrics.Serve(ctx, l, metrics.Handler(w, api.BuildVersion()), d.log)
	})
}

// host makes the tasks those that Reload changes.
func (d *Daemon) host(guests *clientsTask, up *nodeTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients, d.node = guests, up
}

// machine is the NUMA layout; nil, with which all is equally near, if it cannot be
// read.
func (d *Daemon) machine() *numa.Machine {
	m, err := numa.Read(d.sysfs)
	if err != nil {
		d.log.Warn("the NUMA layout cannot be read: all interfaces count as equally near", "err", err)
		return nil
	}
	return m
}

func (d *Daemon) notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		d.log.Warn("systemd was not notified", "state", state, "err", err)
	}
}

func (d *Daemon) version() api.Version {
	return api.Version{
		Program: "lnetd", Version: api.BuildVersion(), Go: runtime.Version(),
		PID: os.Getpid(), Started: d.started,
	}
}

func listenMetrics(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if at, err := net.ResolveTCPAddr("tcp", addr); err == nil {
			return nil, portInUse(at.AddrPort(), "give the metrics another address with --metrics-addr")
		}
	}
	return nil, api.Fault{
		Code: api.CodePortForbidden, Errno: -int(server.Errno(err)),
		Text:   fmt.Sprintf("metrics cannot be served on %s", addr),
		Remedy: "give the metrics another address with --metrics-addr",
	}.Because(err)
}

// serveTask is a server that is ready as soon as it runs: its listener has
// been made before.
type serveTask struct {
	name  string
	serve func(context.Context) error
	ready chan struct{}
}

func newServeTask(name string, serve func(context.Context) error) *serveTask {
	return &serveTask{name: name, serve: serve, ready: make(chan struct{})}
}

func (t *serveTask) Run(ctx context.Context) error {
	close(t.ready)
	return t.serve(ctx)
}

func (t *serveTask) Ready() <-chan struct{} { return t.ready }
func (t *serveTask) String() string         { return t.name }
