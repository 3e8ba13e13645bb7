package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/numa"
)

// closePatience bounds the node's own end: a router drains for up to 10 s first
// (lnet-core 9.1), then peers that do not answer any more take their time.
const closePatience = 20 * time.Second

// nodeTask is the node with its drivers. The node may be used once the task is
// ready.
type nodeTask struct {
	*node.Node
	config  config.Config
	machine *numa.Machine // nil: one NUMA node
	log     *slog.Logger
	driver  *socklnd.Driver
	// linkPending tells whether an interface may become usable soon.
	linkPending func() bool
	ready       chan struct{}
}

func newNodeTask(c config.Config, m *numa.Machine, log *slog.Logger) *nodeTask {
	return &nodeTask{config: c, machine: m, log: log, linkPending: linkPending, ready: make(chan struct{})}
}

// cpts is the number of CPU partitions.
func (t *nodeTask) cpts() int {
	if t.machine == nil {
		return 1
	}
	return t.machine.CPTs()
}

func (t *nodeTask) Ready() <-chan struct{} { return t.ready }
func (t *nodeTask) String() string         { return "node" }

// Run brings the node and its NIs up, waits, and takes them down.
func (t *nodeTask) Run(ctx context.Context) error {
	n, err := node.New(node.Config{
		Logger:     t.log,
		Parameters: &t.config.Parameters,
		NUMA:       t.machine,
		Routing:    t.config.Routing == config.RoutingAtOnce,
		Buffers:    t.config.Buffers,
	})
	if err != nil {
		return control.Fault{Code: control.CodeConfigInvalid, Text: "the node cannot be made"}.Because(err)
	}
	t.Node = n
	switch err = t.up(ctx); {
	case err == nil:
		close(t.ready)
		<-ctx.Done()
	case ctx.Err() != nil: // told to stop before it was up
		err = nil
	}
	return errors.Join(err, t.down())
}

// down closes the node, then the driver below it.
func (t *nodeTask) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		return err // the driver still has interfaces
	}
	if t.driver == nil {
		return nil
	}
	return t.driver.Close()
}

// up does what the configuration says, in the order in which one thing needs
// another: rules hold for what comes after them, routes need NIs, and a peer can
// be configured until it is a gateway.
func (t *nodeTask) up(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		t.addRules, t.addNIs, t.addPeers, t.addRoutes, t.checkGateways, t.startRouting,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// addNIs brings the NIs up. If the port is forbidden and nobody has asked for it,
// another one is taken.
func (t *nodeTask) addNIs(ctx context.Context) error {
	nis, err := t.interfaces(ctx)
	if err != nil {
		return err
	}
	if acceptLikes(&t.config, mayUsePrivilegedPorts) {
		t.log.Info("no right to use privileged ports: accept=all, so that nodes like this one can call it")
	}
	err = t.addAll(ctx, t.config.Socklnd, nis)
	var listen *socklnd.ListenError
	if !errors.As(err, &listen) || !errors.Is(err, syscall.EACCES) || t.config.PortGiven {
		return t.explain(err)
	}
	if err := t.driver.Close(); err != nil {
		return err
	}
	t.config.TakeUnprivilegedPort()
	t.warnUnprivileged()
	return t.explain(t.addAll(ctx, t.config.Socklnd, nis))
}

// addAll opens all NIs with a new driver.
func (t *nodeTask) addAll(ctx context.Context, c socklnd.Config, nis []lnd.Config) error {
	c.Logger = t.log
	d, err := socklnd.New(c)
	if err != nil {
		return control.Fault{Code: control.CodeConfigInvalid, Text: "the TCP driver cannot be made"}.Because(err)
	}
	t.driver = d
	for _, ni := range nis {
		if ni.Net.Type() != d.Type() {
			return &control.Fault{
				Code: control.CodeInterface, Errno: -int(syscall.EPROTONOSUPPORT),
				Text:   fmt.Sprintf("net %s cannot be brought up", ni.Net),
				Cause:  fmt.Sprintf("this lnetd has no driver for %s nets", ni.Net.Type()),
				Remedy: "take the net out of the configuration",
			}
		}
		info, err := t.AddNI(ctx, d, ni)
		if err != nil {
			return &niError{config: ni, err: err}
		}
		t.log.Info("NI added", "nid", info.NID.String(), "interface", info.Device,
			"peer_credits", info.Tunables.PeerCredits, "credits", info.Tunables.Credits,
			"peer_timeout", info.Tunables.PeerTimeout.String(), "port", c.AcceptPort, "accept", c.Accept.String())
	}
	return nil
}

// niError is an NI that could not be opened.
type niError struct {
	config lnd.Config
	err    error
}

func (e *niError) Error() string { return e.err.Error() }
func (e *niError) Unwrap() error { return e.err }

// name is what the operator called the NI.
func (e *niError) name() string {
	switch {
	case e.config.Device != "":
		return e.config.Net.String() + "(" + e.config.Device + ")"
	case !e.config.NID.IsZero():
		return e.config.NID.String()
	}
	return e.config.Net.String()
}

// explain turns an error of addAll into what an operator needs to know.
func (t *nodeTask) explain(err error) error {
	var failed *niError
	if !errors.As(err, &failed) {
		return err
	}
	var listen *socklnd.ListenError
	if errors.As(err, &listen) {
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return portInUse(listen.Addr, "stop that process, or choose another port with --port")
		case errors.Is(err, syscall.EACCES):
			return portForbidden(listen.Addr, err)
		}
	}
	return control.Fault{
		Code: control.CodeInterface, Errno: -int(control.Errno(err)),
		Text:   fmt.Sprintf("NI %s cannot be brought up", failed.name()),
		Remedy: "check with \"ip addr\" that the interface exists, is up and has an address",
	}.Because(failed.err)
}

func portForbidden(at netip.AddrPort, err error) error {
	return control.Fault{
		Code: control.CodePortForbidden, Errno: -int(syscall.EACCES),
		Text: fmt.Sprintf("no right to listen on %s", at),
		Remedy: "run as root, give lnetd the capability CAP_NET_BIND_SERVICE, " +
			"or choose a port above 1023 with --port (kernel nodes call port 988 only)",
	}.Because(err)
}

// warnUnprivileged says what the port that was taken means.
func (t *nodeTask) warnUnprivileged() {
	c := t.config.Socklnd
	t.log.Warn(fmt.Sprintf("no right to listen on port %d: listening on port %d with accept=%s instead",
		config.Port, c.AcceptPort, c.Accept))
	t.log.Warn(fmt.Sprintf("kernel nodes cannot call this node: they call port %d only; "+
		"other lnetd can if they call port %d", config.Port, c.AcceptPort))
	t.log.Warn(fmt.Sprintf("this node calls port %d; to call kernel nodes set connect_port to %d: "+
		"those loaded with accept=all take it, others refuse source ports above 1023, which it calls from",
		c.ConnectPort, config.Port))
	t.log.Warn("to be a full node run lnetd as root or give it the capability CAP_NET_BIND_SERVICE")
}
