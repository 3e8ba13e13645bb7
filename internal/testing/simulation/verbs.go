package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

// verbsPlan is the part of a scenario that describes RDMA: which rails use it, their properties and
// their faults.
type verbsPlan struct {
	rails      []bool // which rails use RDMA; nil: all rails are TCP
	fabric     fabric.Config
	rnrRetries int
	faults     []Fault // planned faults of the network
}

// verbsFaults are the faults of the RDMA network, and verbsMemberFaults the faults of members with RDMA.
// In addition, links lose and fail messages as configured.
var (
	verbsFaults = [...]Fault{
		FaultVerbsBroken, FaultVerbsBroken, FaultVerbsCut, FaultVerbsOneWay, FaultVerbsRace, FaultVerbsRace,
		FaultVerbsLost, FaultVerbsNotReady, FaultVerbsFailed, FaultVerbsCMLost, FaultVerbsStale,
	}
	verbsMemberFaults = [...]Fault{FaultVerbsRemoved, FaultVerbsMoved, FaultLinkDown, FaultRestart}
)

// poolSize is the memory in bytes that an RDMA driver has for transfers. It is so small that some
// transfers must wait.
const poolSize = 6 << 20

// drawVerbs draws the rails that use RDMA, and the faults of RDMA. It uses separate random numbers, so
// that the rest of the scenario does not depend on them.
func (s *scenario) drawVerbs() {
	r := rand.New(rand.NewPCG(s.seed, 0x1b))
	if r.IntN(5) < 2 {
		return
	}
	p := &s.verbs
	p.rails = make([]bool, s.rails)
	for rail := range p.rails {
		p.rails[rail] = r.IntN(2) == 0
		if s.oneNet {
			p.rails[rail] = p.rails[0]
		}
	}
	if !slices.Contains(p.rails, true) {
		p.rails = nil
		return
	}
	if s.routers > 0 {
		s.ipv6 = false // RDMA has no large NIDs (o2iblnd 2.1)
	}
	p.fabric = fabric.Config{Seed: s.seed ^ 0x1b, Link: drawVerbsLink(r)}
	if r.IntN(3) > 0 {
		p.fabric.AckTimeout = 20 * time.Millisecond << r.IntN(5)
	}
	p.rnrRetries = min(r.IntN(8), r.IntN(8))
	if s.faultless() {
		p.fabric.Link = faultlessLink(p.fabric.Link)
		return
	}
	for range 1 + r.IntN(6) {
		p.faults = append(p.faults, verbsFaults[r.IntN(len(verbsFaults))])
	}
	for range r.IntN(3) {
		s.memberFaults = append(s.memberFaults, verbsMemberFaults[r.IntN(len(verbsMemberFaults))])
	}
}

func drawVerbsLink(r *rand.Rand) fabric.Link {
	switch r.IntN(4) {
	case 0:
		return fabric.Link{}
	case 1:
		return fabric.Link{Latency: 20 * time.Microsecond, Jitter: 10 * time.Microsecond}
	case 2:
		return fabric.Link{Latency: time.Millisecond, Jitter: 10 * time.Millisecond}
	}
	return fabric.Link{
		Latency: 100 * time.Microsecond, Jitter: time.Millisecond,
		Loss: 0.005, CMLoss: 0.02, Break: 0.0005, RNR: 0.001, Fail: 0.0005, Stale: 0.05,
	}
}

// faultlessLink returns a link with the same latency, but without faults.
func faultlessLink(l fabric.Link) fabric.Link {
	return fabric.Link{Latency: l.Latency, Jitter: l.Jitter}
}

// isVerbs reports whether a rail uses RDMA.
func (s *scenario) isVerbs(rail int) bool { return rail < len(s.verbs.rails) && s.verbs.rails[rail] }

// driverWithin is the time limit for a message in a driver. Over TCP it is twice the LND timeout,
// because the driver may detect a timeout that late. Over RDMA a message may first wait for a
// connection, and then for each half of a transfer (o2iblnd 13.2).
func (s *scenario) driverWithin() time.Duration {
	if s.verbs.rails == nil {
		return 2 * s.lndTimeout
	}
	return protocol.WaitTimeout(s.lndTimeout) + 3*s.lndTimeout + time.Second
}

// verbsDriver returns the configuration of a member's RDMA driver.
func (s *scenario) verbsDriver() o2iblnd.Config {
	c := o2iblnd.DefaultConfig()
	c.Tunables = s.tunables
	c.Timeout = s.lndTimeout
	c.Keepalive = 2 * time.Second
	c.RedialPause = s.minReconnect
	c.RNRRetryCount = s.verbs.rnrRetries
	c.Pool = poolSize
	return c
}

// device is a network device, which can go up and down.
type device interface{ SetUp(up bool) }

// verbsDevice is an RDMA address of a host, and the device with one port that has the address now. It is
// not safe for concurrent use.
type verbsDevice struct {
	host    *fabric.Host
	current *fabric.Device
	addr    string
}

// SetUp implements device.
func (d *verbsDevice) SetUp(up bool) { d.current.Port(1).SetUp(up) }

// replace removes the device, calls whileRemoved, and adds another device with the same address.
func (d *verbsDevice) replace(whileRemoved func()) {
	d.current.Remove()
	whileRemoved()
	d.current = d.host.AddDevice(d.addr)
}

// startVerbs starts the RDMA process and driver of a life, if it uses RDMA.
func (l *life) startVerbs(c o2iblnd.Config) error {
	m := l.member
	if m.w.verbs.rails == nil {
		return nil
	}
	l.process = m.verbs.Open()
	c.Provider, c.Host = l.process, m.verbs
	var err error
	l.verbs, err = o2iblnd.New(c)
	return err
}

// driverFor returns the driver for a net.
func (l *life) driverFor(n lnet.Net) lnd.Driver {
	if n.Type() == lnet.TypeO2IB {
		return l.verbs
	}
	return l.driver
}

// crash cuts all connections of the life without a shutdown. Over RDMA, either its process dies and the
// kernel notifies peers, or its host dies and peers are not notified.
func (l *life) crash() {
	l.member.host.Crash()
	switch {
	case l.process == nil:
	case (l.member.index+l.number)%2 == 0:
		l.process.Kill()
	default:
		l.member.verbs.Crash()
	}
}

// closeVerbs closes the RDMA driver and then the RDMA process. It records a violation if the process has
// resources left.
func (l *life) closeVerbs() {
	if l.process == nil {
		return
	}
	if err := l.verbs.Close(); err != nil {
		l.member.w.violate("%v: close driver of RDMA: %v", l, err)
	}
	if err := l.process.Close(); err != nil {
		l.member.w.violate("%v: close process: %v", l, err)
	}
}

// faultsOfVerbs adds the faults that the RDMA fabric has counted. It records a violation if a completion
// queue overflowed. w.mu is held.
func (w *world) faultsOfVerbs(f fabric.Faults) {
	for k, n := range map[Fault]uint64{
		FaultVerbsBroken: f.Breaks, FaultVerbsLost: f.Losses, FaultVerbsStalled: f.Stalls, FaultVerbsRetried: f.RetryExceeded,
		FaultVerbsNotReady: f.RNR, FaultVerbsNotReadyLong: f.RNRExceeded, FaultVerbsFailed: f.Failures, FaultVerbsCMLost: f.CMLosses,
		FaultVerbsStale: f.Stale, FaultVerbsRejected: f.Rejects, FaultVerbsUnreachable: f.Unreachable, FaultVerbsEarly: f.EarlyMessages,
		FaultVerbsRemoved: f.Removals, FaultVerbsPortDown: f.Down, FaultVerbsKilled: f.Kills, FaultVerbsCrashed: f.Crashes,
	} {
		w.result.Faults[k] += n
	}
	if f.Overflows > 0 {
		w.violate("%d completion queues have overflowed", f.Overflows)
	}
}
