package daemon

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/lnetd/events"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/numa"
)

// stopTimeout returns the maximum time that an orderly stop takes. It includes the farewell, the
// configured time in which clients may end. Peers that no longer answer delay the stop most. With the
// default farewell, the result is less than 90 s, after which systemd kills a process by default.
func stopTimeout(c *config.Config) time.Duration {
	return c.Transport.Farewell + clientsTimeout + selftestTimeout + closeTimeout + 5*time.Second
}

// startTimeout is the maximum time that lnetd asks systemd for to start, in addition to the time
// that it waits for gateways.
const startTimeout = 30 * time.Second

// Daemon is one lnetd: a node with its control interface, its clients and its metrics.
type Daemon struct {
	config  config.Config
	drivers Drivers
	log     *slog.Logger
	bounded *boundedlog.Log // the log behind log and the logs of all tasks
	events  *events.Log     // what the log reports, for lnetdctl events
	started time.Time
	// systemd represents the service manager. It does nothing if systemd did not start this
	// process.
	systemd *systemd.Manager
	// sysfs is the file system from which the host's NUMA layout is read, normally /sys.
	sysfs fs.FS
	// programs use the node in this process.
	programs []program

	level *slog.LevelVar // nil if Reload cannot change it

	stuck atomic.Pointer[string] // names of the node's loops that make no progress; nil before the first check

	reloads sync.Mutex // serializes reloads; acquired before all other locks
	record  reloadRecord

	mu     sync.Mutex    // guards the fields below; not held while waiting
	loaded config.Config // config with the settings of lnetd itself that are in force now
	// configured is the log level of the configuration. The level in force, which "log set" can
	// change, is in loaded.
	configured slog.Level
	// written holds the settings of lnetd itself as files and documents contain them, by their keys
	// in the section "lnetd". It includes settings that take effect only after a restart.
	written map[string]any
	clients *clientsTask // nil before Run
	proxies *proxiesTask // nil before Run
	node    *nodeTask    // nil before Run
}

// program is code that runs in this process and uses the node, but is not part of lnetd.
type program struct {
	name string
	run  func(context.Context, *node.Node) error
}

// New returns a daemon with the given configuration, which must have been parsed with the options
// of drivers. It logs to log, or nowhere if log is nil.
func New(c config.Config, drivers Drivers, log *slog.Logger) *Daemon {
	remembered := events.New()
	bounded := boundedlog.NewWatched(log, remembered)
	d := &Daemon{
		config: c, drivers: drivers, log: bounded.Logger, bounded: bounded, events: remembered, started: time.Now(), sysfs: os.DirFS("/sys"),
		systemd: systemd.FromEnvironment(bounded.Logger), loaded: c, configured: c.LogLevel,
		written: c.Given.Around,
	}
	d.record.start(&c, d.started)
	return d
}

// Logger returns the daemon's logger. What it logs from level info on also becomes an event for "lnetdctl events".
func (d *Daemon) Logger() *slog.Logger { return d.log }

// Use adds a program that uses the node in this process. It must be called before Run. The daemon
// calls run when the node is up. The function must return when ctx is done. If it returns
// earlier, the daemon stops.
func (d *Daemon) Use(name string, run func(ctx context.Context, n *node.Node) error) {
	d.programs = append(d.programs, program{name: name, run: run})
}

// Run brings the node up, serves it until ctx is done, and takes it down within the time limit of
// stopTimeout. It returns nil if there was no error. Errors that an operator can correct contain an
// *api.Fault. Run must be called only once.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.bounded.End()
	for _, w := range d.config.Warnings {
		d.log.Warn("configuration warning", "warning", w.Error())
	}
	d.logStart()
	listening, err := d.listen()
	defer listening.close()
	if err != nil {
		return err
	}
	path := listening.control.Path()

	served, err := newProxiesTask(d.config.Proxies.Rules, listening.proxies, d.log)
	if err != nil {
		return err
	}
	up := newNodeTask(d.config, d.drivers.WithProxies(d.config.Proxies.NetTypes, served.server), d.machine(), d.log)
	up.changes.after = func() { d.systemd.Status(d.status()) }
	lst := newSelftestTask(d.config.Selftest, func() *node.Node { return up.Node }, d.log)
	guests := newClientsTask(d.config.Transport, listening.clients, func() *node.Node { return up.Node }, d.log)
	d.host(guests, served, up)
	defer d.watch(up)()
	b := newBackend(d, up, lst, guests, served)
	tasks := []Task{served, up, lst, guests} // NIs that proxies serve close before the task of proxies ends
	for _, p := range d.programs {
		tasks = append(tasks, newServeTask(p.name, func(ctx context.Context) error { return p.run(ctx, up.Node) }))
	}
	if listening.metrics != nil {
		if err := d.checkWebConfig(&d.config); err != nil {
			return err
		}
		w := watched{up, guests, served, lst, &d.record, hostnet.NewRDMA(), d.bounded}
		tasks = append(tasks, d.metricsTask(listening.metrics, w, shown{b, d}))
	}
	tasks = append(tasks, newServeTask("control", func(ctx context.Context) error {
		s := server.Server{Backend: b, Logger: d.log}
		return s.Serve(ctx, listening.control)
	}))
	patience := stopTimeout(&d.config)
	return run(ctx, tasks,
		func() {
			d.log.Info("ready", "control_socket", path, "version", api.BuildVersion(), "pid", os.Getpid())
			d.systemd.Ready(d.status())
		},
		func() {
			d.log.Info("stopping")
			d.systemd.Stopping(patience, "stopping")
		}, patience)
}

// logStart reports to systemd that lnetd is starting. If the configuration requires gateways to be
// checked before use, logStart asks systemd to wait for as long as lnetd waits for their answers.
// Otherwise systemd would kill lnetd.
func (d *Daemon) logStart() {
	d.systemd.Status("starting")
	if p := &d.config.Parameters; p.CheckRoutersBeforeUse {
		d.systemd.Starting(p.RouterPingTimeout+startTimeout, "starting")
	}
}

// watch starts a goroutine that monitors the node for systemd. The returned function ends the
// goroutine and waits for it.
func (d *Daemon) watch(up *nodeTask) (stop func()) {
	w := watch{systemd: d.systemd, status: d.status, log: d.log, stuck: &d.stuck, loops: func() []node.Progress {
		select {
		case <-up.ready:
			return up.Progress()
		default:
			return nil
		}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx) }()
	return func() { cancel(); <-ended }
}

// host stores the tasks to which Reload applies a new configuration.
func (d *Daemon) host(guests *clientsTask, served *proxiesTask, up *nodeTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients, d.proxies, d.node = guests, served, up
}

// machine returns the NUMA layout of the host. If the layout cannot be read, machine logs this and
// returns nil, so that all interfaces count as equally near to all memory.
func (d *Daemon) machine() *numa.Machine {
	m, err := numa.Read(d.sysfs)
	if err != nil {
		d.log.Warn("cannot read the NUMA layout: all interfaces count as equally near", "err", err)
		return nil
	}
	return m
}

func (d *Daemon) version() api.Version {
	v := api.Version{
		Program: "lnetd", Version: api.BuildVersion(), Go: runtime.Version(),
		PID: os.Getpid(), Started: d.started, Uptime: time.Since(d.started).Seconds(),
	}
	if stuck := d.stuck.Load(); stuck != nil {
		v.Stuck = *stuck
	}
	return v
}

// serveTask is a Task for a server or a program. It is ready as soon as it runs, because the
// server's listener has been created before.
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
