package daemon

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// downReason returns why an NI is down. If the driver knows why the link is down, this is added in
// parentheses.
func downReason(i *node.NIInfo) string {
	if i.LinkCause == "" {
		return i.Down.String()
	}
	return i.Down.String() + " (" + i.LinkCause + ")"
}

// controlNI converts the NI i, with its driver's tunables and its CPU partitions, to the form of the
// control interface. Times are shown in seconds since boot.
func controlNI(i *node.NIInfo, tunables []api.Tunable, cpts string, boot time.Time) api.NI {
	ni := api.NI{
		NID:        i.NID,
		Status:     "down",
		Reason:     downReason(i),
		Since:      i.Since,
		Statistics: statistics(&i.Traffic),
		UDSP:       udspInfo(&i.Policy),
		Sent:       api.MessageCounts(i.Traffic.Sent),
		Received:   api.MessageCounts(i.Traffic.Received),
		Dropped:    api.MessageCounts(i.Traffic.Dropped),
		Health: api.HealthStats{
			Value:      i.Health.Value,
			Interrupts: i.Health.Interrupts,
			Dropped:    i.Health.Dropped,
			Aborted:    i.Health.Aborted,
			NoRoute:    i.Health.NoRoute,
			Timeouts:   i.Health.Timeouts,
			Errors:     i.Health.Errors,
			PingCount:  uint64(i.Health.Pings),
			NextPing:   secondsSince(boot, i.Health.NextPing),
		},
		Tunables: api.Tunables{
			PeerTimeout:       int(i.Tunables.PeerTimeout / time.Second),
			PeerCredits:       i.Tunables.PeerCredits,
			PeerBufferCredits: i.Tunables.PeerBufferCredits,
			Credits:           i.Tunables.Credits,
		},
		LND:    tunables,
		DevCPT: i.DeviceCPT,
		CPT:    cpts,
	}
	for _, c := range i.Driver {
		ni.Counters = append(ni.Counters, api.Counter{Name: c.Name, Value: c.Value})
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
		ni.Health.Value = 0 // as in kernels, in which 0@lo has no health
		ni.DevCPT = selection.UnknownCPT
	}
	return ni
}

func statistics(t *node.Traffic) api.Statistics {
	return api.Statistics{
		Sent:      t.Sent.Total(),
		Received:  t.Received.Total(),
		Dropped:   t.Dropped.Total(),
		PutEgress: latency(t.PutEgress),
		GetRTT:    latency(t.GetRTT),
		PutAck:    latency(t.PutAck),
	}
}

// udspInfo converts the effect of policies on an NI or a peer NI to the form of the control interface.
// The greatest number means that no policy sets a priority. It is shown as -1, as in kernels.
func udspInfo(p *node.PolicyInfo) api.UDSPInfo {
	return api.UDSPInfo{
		NetPriority:       int(int32(p.NetPriority)),
		NIDPriority:       int(int32(p.NIDPriority)),
		PreferredGateways: p.Gateways,
		PreferredSources:  p.Sources,
	}
}

// allCPTs returns the list of all n CPU partitions as text: "[0,1,2]" for n = 3.
func allCPTs(n int) string {
	all := make([]int, max(n, 1))
	for k := range all {
		all[k] = k
	}
	return listCPTs(all)
}

func listCPTs(cpts []int) string {
	list := make([]string, len(cpts))
	for k, c := range cpts {
		list[k] = strconv.Itoa(c)
	}
	return "[" + strings.Join(list, ",") + "]"
}

func latency(l node.Latency) api.Latency {
	return api.Latency{Samples: l.Samples, Min: uint64(l.Min), Max: uint64(l.Max), Avg: uint64(l.Avg)}
}

// bootTime returns the time when the host was booted. The caller must call it only once. It reads two
// clocks, one after the other, so each call returns a slightly different time.
func bootTime() time.Time {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}

// secondsSince returns the seconds from boot to t, or 0 if t is the zero time.
func secondsSince(boot, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return int64(t.Sub(boot) / time.Second)
}
