package uplnd

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Status describes a proxy that is attached.
type Status struct {
	Proxy
	// Up is whether it can carry traffic.
	Up bool
	// PIDs are those that it owns, sorted.
	PIDs []lnet.PID
	// Sends is the number of messages that it is to send, and Waiting that of those that wait in lnetd for room
	// in its rings or its area. Arrivals is the number of messages that it has received and lnetd has not ended.
	Sends, Waiting, Arrivals int
	// Sent and Received count messages, SentBytes and ReceivedBytes their payloads. Failed counts the messages
	// that the proxy could not send.
	Sent, Received, SentBytes, ReceivedBytes, Failed uint64
}

// traffic counts what Status reports.
type traffic struct {
	sent, received, sentBytes, receivedBytes, failed atomic.Uint64
}

// Proxies returns the proxies that are attached, by NI and in the order in which they were attached.
func (s *Server) Proxies() []Status {
	s.mu.Lock()
	nis := slices.Collect(maps.Values(s.nis))
	s.mu.Unlock()
	slices.SortFunc(nis, func(a, b *ni) int { return a.config.NID.Compare(b.config.NID) })
	var list []Status
	for _, i := range nis {
		routes := *i.routes.Load()
		for _, p := range i.attached() {
			list = append(list, p.status(routes))
		}
	}
	return list
}

func (p *proxyEnd) status(routes map[lnet.PID]*proxyEnd) Status {
	c := &p.traffic
	s := Status{
		Proxy: p.Proxy, Up: p.ready.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
		SentBytes: c.sentBytes.Load(), ReceivedBytes: c.receivedBytes.Load(), Failed: c.failed.Load(),
	}
	for pid, q := range routes {
		if q == p {
			s.PIDs = append(s.PIDs, pid)
		}
	}
	slices.Sort(s.PIDs)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Sends, s.Waiting, s.Arrivals = p.sends.Len(), len(p.waiting), len(p.arrivals)
	return s
}

// refusal is an attempt of a process to attach that failed, or the cut-off of a proxy.
type refusal struct {
	who  Proxy
	at   time.Time
	what string // "was refused" or "was cut off"
	err  error
}

func (r *refusal) String() string {
	return fmt.Sprintf("proxy %q, pid %d, uid %d, %s at %s: %v",
		r.who.Name, r.who.PID, r.who.UID, r.what, r.at.Format(time.DateTime), r.err)
}

// LinkCause implements lnd.LinkExplainer. It says why the NI is not up, and what to do.
func (i *ni) LinkCause() string {
	if i.up.Load() {
		return ""
	}
	if list := i.attached(); len(list) > 0 {
		return fmt.Sprintf("proxy %q, pid %d, has not reported that its network is up", list[0].Name, list[0].PID)
	}
	if r := i.refused.Load(); r != nil {
		return r.String()
	}
	name := ""
	if i.proxy != "" {
		name = fmt.Sprintf(" with the name %q", i.proxy)
	}
	return "no proxy" + name + " is attached: start the program that serves net " + i.config.Net.String()
}
