package simulation

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
)

// newNode creates a node with the parameters of a scenario. routes makes it a router.
func newNode(s *scenario, mode discovery.Mode, routes bool, wall func() time.Time, log *slog.Logger) (*node.Node, error) {
	p := node.DefaultParameters()
	p.Discovery = mode
	p.TransactionTimeout = s.transaction
	p.RetryCount = s.retries
	p.HealthSensitivity = s.sensitivity
	p.MaxRecoveryPingInterval = 4 * time.Second
	if s.routers > 0 {
		p.RouterCheckInterval, p.RouterPingTimeout = s.checkInterval, 2*s.checkInterval
	}
	return node.New(node.Config{
		Logger: log, Wall: wall, Parameters: &p, Seed: s.seed, Routing: routes, Buffers: s.buffers,
	})
}

// delayMax is the longest delay of a message by a fault rule.
const delayMax = 2 * time.Second

// rule returns the fault rule for fault f. It matches only messages of type only, or all messages if
// only is MsgHello. status is the error of FaultRuleFail, latency the delay of FaultRuleDelay.
func rule(f Fault, status lnd.Status, rate int, latency time.Duration, only lnet.MsgType) fault.Rule {
	r := fault.Rule{Kind: fault.Drop, Rate: rate}
	switch f {
	case FaultRuleFail:
		r.Statuses = 1 << status
	case FaultRuleDelay:
		r.Kind, r.Latency = fault.Delay, latency
	}
	if only != lnet.MsgHello {
		r.Messages = 1 << only
	}
	return r
}

// removeRules removes all fault rules of a kind and returns how often they affected a message.
func removeRules(n *node.Node, k fault.Kind) (hits uint64) {
	for _, s := range n.Admin().Faults(k) {
		hits += s.Counts.Hits
	}
	n.Admin().RemoveFaults(k, fault.NIDFilter{}, fault.NIDFilter{})
	return hits
}
