package daemon

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A process in user space is one CPU partition; no device belongs to one.
const (
	allCPTs  = "[0]"
	noDevCPT = -1
)

// noPriority is how "no user policy" shows.
const noPriority = -1

// backend shows the node to the control interface.
type backend struct {
	daemon *Daemon
	node   *nodeTask
}

func (b *backend) Version() control.Version { return b.daemon.version() }

func (b *backend) Nets() []control.Net {
	var nets []control.Net
	for _, info := range b.node.NIs() {
		if len(nets) == 0 || nets[len(nets)-1].Net != info.Net {
			nets = append(nets, control.Net{Net: info.Net})
		}
		n := &nets[len(nets)-1]
		n.NIs = append(n.NIs, controlNI(&info))
	}
	return nets
}

func (b *backend) Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (control.PingResult, error) {
	info, err := b.node.Node.Ping(ctx, to, node.PingOptions{Source: source})
	if err != nil {
		return control.PingResult{}, err
	}
	// Nothing is discovered: the NID that was pinged stands for the peer.
	res := control.PingResult{Primary: to.NID, PID: info.PID}
	for _, ni := range info.NIs {
		res.NIDs = append(res.NIDs, ni.NID)
	}
	return res, nil
}

// controlNI describes an NI as lnetctl shows it.
func controlNI(i *node.NIInfo) control.NI {
	ni := control.NI{
		NID:    i.NID,
		Status: "down",
		Statistics: control.Statistics{
			Sent:      i.Traffic.Sent.Total(),
			Received:  i.Traffic.Received.Total(),
			Dropped:   i.Traffic.Dropped.Total(),
			PutEgress: latency(i.Traffic.PutEgress),
			GetRTT:    latency(i.Traffic.GetRTT),
			PutAck:    latency(i.Traffic.PutAck),
		},
		UDSP:     control.UDSPInfo{NetPriority: noPriority, NIDPriority: noPriority},
		Sent:     control.MessageCounts(i.Traffic.Sent),
		Received: control.MessageCounts(i.Traffic.Received),
		Dropped:  control.MessageCounts(i.Traffic.Dropped),
		Health: control.HealthStats{
			Value:      i.Health.Value,
			Interrupts: i.Health.Interrupts,
			Dropped:    i.Health.Dropped,
			Aborted:    i.Health.Aborted,
			NoRoute:    i.Health.NoRoute,
			Timeouts:   i.Health.Timeouts,
			Errors:     i.Health.Errors,
			PingCount:  uint64(i.Health.Pings),
			NextPing:   sinceBoot(i.Health.NextPing),
		},
		Tunables: control.Tunables{
			PeerTimeout:       int(i.Tunables.PeerTimeout / time.Second),
			PeerCredits:       i.Tunables.PeerCredits,
			PeerBufferCredits: i.Tunables.PeerBufferCredits,
			Credits:           i.Tunables.Credits,
		},
		LND:    lndTunables(i),
		DevCPT: noDevCPT,
		CPT:    allCPTs,
	}
	for _, c := range i.Driver {
		ni.Counters = append(ni.Counters, control.Counter(c))
	}
	if i.Status == lnet.StatusUp {
		ni.Status = "up"
	}
	if i.Health.Fatal {
		ni.Health.FatalError = 1
	}
	if i.Device != "" {
		ni.Interfaces = []string{i.Device}
	}
	if i.NID.IsLoopback() {
		ni.Health.Value = 0 // kernels keep none for it
	}
	return ni
}

// lndTunables are the driver's own tunables (lnetctl 5.1 item 8).
func lndTunables(i *node.NIInfo) []control.Tunable {
	o, ok := i.Options.(socklnd.Options)
	if !ok {
		return nil
	}
	tos := int64(-1)
	if o.TOS != nil {
		tos = int64(*o.TOS)
	}
	return []control.Tunable{
		{Name: "conns_per_peer", Value: int64(o.ConnsPerPeer)},
		{Name: "timeout", Value: int64(i.Limits.Timeout / time.Second)},
		{Name: "tos", Value: tos},
	}
}

func latency(l node.Latency) control.Latency {
	return control.Latency{Samples: l.Samples, Min: uint64(l.Min), Max: uint64(l.Max), Avg: uint64(l.Avg)}
}

// sinceBoot is when t is, in seconds since boot; 0 for the zero time.
func sinceBoot(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return now.Sec + int64(time.Until(t)/time.Second)
}
