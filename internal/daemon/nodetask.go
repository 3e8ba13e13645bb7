package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control"
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
	drivers Drivers
	engines *engines
	ready   chan struct{}
}

func newNodeTask(c config.Config, drivers Drivers, m *numa.Machine, log *slog.Logger) *nodeTask {
	return &nodeTask{
		config: c, machine: m, log: log,
		drivers: drivers, engines: newEngines(drivers, c.Drivers, log),
		ready: make(chan struct{}),
	}
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

// down closes the node, then the drivers below it.
func (t *nodeTask) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		return err // drivers still have interfaces
	}
	return t.engines.close()
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

// addNIs brings the NIs up.
func (t *nodeTask) addNIs(ctx context.Context) error {
	nis, err := t.interfaces(ctx)
	if err != nil {
		return err
	}
	for k := range nis {
		if err := t.engines.addNI(ctx, t.Node, &nis[k]); err != nil {
			return err
		}
	}
	return nil
}

// interfaces are the configured NIs, or one that is at hand.
func (t *nodeTask) interfaces(ctx context.Context) ([]config.NI, error) {
	if len(t.config.NIs) > 0 {
		return t.config.NIs, nil
	}
	for k := range t.drivers {
		if find := t.drivers[k].Find; find != nil {
			ni, err := find(ctx, t.log)
			return []config.NI{ni}, err
		}
	}
	return nil, nil
}
