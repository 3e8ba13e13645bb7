package controltest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
	"github.com/lnetd/lnetd/selftest/console"
)

// Daemon is a server.Backend in memory. Its methods return and change its fields. Tests set the fields
// before use and read them afterwards. The zero value is a node without nets.
type Daemon struct {
	Is        api.Version
	Logs      api.Log
	NetList   []api.Net
	PeerList  []api.Peer
	RouteList []api.Route
	Forwards  api.Routing
	Buffers   api.Buffers // argument of the last SetBuffers; -1: unchanged
	Values    api.Globals
	Policies  selection.Policies
	Totals    api.Counters
	Drops     []api.Reason
	Refusals  []api.Reason
	LogCounts api.LogCounts
	Guests    api.Clients
	WaitList  []api.WaitingNI
	// AddWarnings are the warnings of AddNet.
	AddWarnings []string
	Down        bool // LNet is not configured
	Ill         api.Recovery
	Lst         server.Selftest // nil: LNet selftest cannot be enabled

	// PingFunc, DiscoverFunc and ExplainFunc are called by Ping, Discover and Explain. If a function is
	// nil, its caller reports that the node is unreachable.
	PingFunc     func(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error)
	DiscoverFunc func(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error)
	ExplainFunc  func(to, source lnet.NID, portal uint32) selection.Explanation
	// ChangeFunc, DescribedFunc and ErrandsFunc are called by ChangeConfiguration, Described and Errands.
	// If a function is nil, its caller returns the result for an empty document.
	ChangeFunc    func(r api.ConfigurationChange) (api.ConfigurationChanged, error)
	DescribedFunc func(d api.Document) (api.Described, error)
	ErrandsFunc   func(d api.Document) ([]api.Errand, error)
	// EventsFunc is called by Events. If it is nil, there are no events.
	EventsFunc func(f api.EventFilter) server.Stream
	// CaptureFunc is called by Capture. If it is nil, there are no messages.
	CaptureFunc func(ctx context.Context, f capture.Filter) (server.Stream, error)

	// Refuse is called before each change with the operation and its arguments, such as "DropClient 1". If
	// it returns an error, the operation fails with it. It may block. It may be nil.
	Refuse func(operation string) error
	// Done lists the operations that succeeded, in order, with their arguments.
	Done []string

	mu     sync.Mutex // guards the fields
	faults *fault.Rules
	// described are the peers of the last result of DescribedFunc.
	described []api.Peer
	inTurn    chan struct{} // a lock of one element, held during InTurn
}

var _ server.Backend = (*Daemon)(nil)

// change calls do with d.mu held, and adds the operation to Done if do returns nil. It does neither if
// Refuse returns an error.
func (d *Daemon) change(operation string, do func() error) error {
	if d.Refuse != nil {
		if err := d.Refuse(operation); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	d.Done = append(d.Done, operation)
	return nil
}

// InTurn calls do while no other call of InTurn runs its function. It returns the cause of ctx if ctx is
// done before that.
func (d *Daemon) InTurn(ctx context.Context, do func()) error {
	d.mu.Lock()
	if d.inTurn == nil {
		d.inTurn = make(chan struct{}, 1)
	}
	turn := d.inTurn
	d.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		do()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Version returns Is.
func (d *Daemon) Version() api.Version { return d.Is }

// Log returns Logs.
func (d *Daemon) Log() api.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Logs
}

// SetLog changes Logs.
func (d *Daemon) SetLog(level string) error {
	return d.change("SetLog "+level, func() error { d.Logs.Level = level; return nil })
}

// Nets returns NetList.
func (d *Daemon) Nets() []api.Net { return d.NetList }

// SetNIHealth sets the health of NIs in NetList.
func (d *Daemon) SetNIHealth(nid lnet.NID, value int) error {
	return d.change(fmt.Sprintf("SetNIHealth %s %d", nid, value), func() error {
		found := nid.IsZero()
		for _, n := range d.NetList {
			for i := range n.NIs {
				if has := n.NIs[i].NID; !has.IsLoopback() && (nid.IsZero() || has == nid) {
					n.NIs[i].Health.Value = value
					found = true
				}
			}
		}
		return known(found)
	})
}

// Ping calls PingFunc.
func (d *Daemon) Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error) {
	if d.PingFunc == nil {
		return api.PingResult{}, node.ErrUnreachable
	}
	return d.PingFunc(ctx, to, source)
}

// Discover calls DiscoverFunc.
func (d *Daemon) Discover(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error) {
	if d.DiscoverFunc == nil {
		return api.Peer{}, node.ErrUnreachable
	}
	return d.DiscoverFunc(ctx, nid, force)
}

// Peers yields the peers of PeerList whose ID is greater than after. A peer whose ID is 0 gets its
// position, counted from 1, as its ID.
func (d *Daemon) Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error] {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Clone(d.PeerList)
	return func(yield func(api.Peer, error) bool) {
		for k, p := range list {
			if p.ID == 0 {
				p.ID = uint64(k + 1)
			}
			if p.ID > uint64(after) && !yield(p, ctx.Err()) {
				return
			}
		}
	}
}

// Peer returns the peer in PeerList that has a NID.
func (d *Daemon) Peer(nid lnet.NID) (api.Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.find(nid); k >= 0 {
		return d.PeerList[k], true
	}
	return api.Peer{}, false
}

// find returns the index in PeerList of the peer that has a NID, or -1.
func (d *Daemon) find(nid lnet.NID) int {
	return slices.IndexFunc(d.PeerList, func(p api.Peer) bool {
		return slices.ContainsFunc(p.NIs, func(i api.PeerNI) bool { return i.NID == nid })
	})
}

// AddPeer adds NIDs to the peer in PeerList that has the primary NID, or adds a peer. It leaves out NIDs
// that a peer already has.
func (d *Daemon) AddPeer(
	_ context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions,
) error {
	return d.change(fmt.Sprintf("AddPeer %s %v %+v", primary, others, o), func() error {
		k := d.find(primary)
		if k < 0 {
			k = len(d.PeerList)
			d.PeerList = append(d.PeerList, api.Peer{
				Primary: primary, MultiRail: !o.SingleRail, State: uint32(discovery.Configured), NIs: []api.PeerNI{newPeerNI(primary)},
			})
		}
		for _, nid := range others {
			if d.find(nid) < 0 {
				d.PeerList[k].NIs = append(d.PeerList[k].NIs, newPeerNI(nid))
			}
		}
		return nil
	})
}

func newPeerNI(nid lnet.NID) api.PeerNI {
	return api.PeerNI{
		NID: nid, State: "NA", Refs: 1,
		UDSP:   api.UDSPInfo{NetPriority: -1, NIDPriority: -1},
		Health: api.PeerHealthStats{Value: node.MaxHealth},
	}
}

// DeletePeer removes a peer from PeerList.
func (d *Daemon) DeletePeer(_ context.Context, primary lnet.NID, force bool) error {
	return d.change(fmt.Sprintf("DeletePeer %s %v", primary, force), func() error {
		k := d.find(primary)
		d.PeerList = slices.Delete(d.PeerList, k, k+1)
		return nil
	})
}

// DeletePeerNIDs removes NIDs from a peer in PeerList.
func (d *Daemon) DeletePeerNIDs(_ context.Context, primary lnet.NID, nids []lnet.NID) error {
	return d.change(fmt.Sprintf("DeletePeerNIDs %s %v", primary, nids), func() error {
		p := &d.PeerList[d.find(primary)]
		p.NIs = slices.DeleteFunc(slices.Clone(p.NIs), func(i api.PeerNI) bool { return slices.Contains(nids, i.NID) })
		return nil
	})
}

// SetPeerHealth sets the health of NIDs in PeerList.
func (d *Daemon) SetPeerHealth(nid lnet.NID, value int) error {
	return d.change(fmt.Sprintf("SetPeerHealth %s %d", nid, value), func() error {
		found := nid.IsZero()
		for _, p := range d.PeerList {
			for i := range p.NIs {
				if nid.IsZero() || p.NIs[i].NID == nid {
					p.NIs[i].Health.Value = value
					found = true
				}
			}
		}
		return known(found)
	})
}

func known(found bool) error {
	if !found {
		return node.ErrNotFound
	}
	return nil
}

// Routes returns RouteList.
func (d *Daemon) Routes() []api.Route {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.RouteList)
}

// AddRoute adds a route to RouteList, and marks it as up. It returns the errors that a node would
// return.
func (d *Daemon) AddRoute(_ context.Context, r api.Route) error {
	return d.change(fmt.Sprintf("AddRoute %s %s %d %d", r.Net, r.Gateway, r.Hops, r.Priority), func() error {
		local := func(n lnet.Net) bool {
			return slices.ContainsFunc(d.NetList, func(o api.Net) bool { return o.Net == n })
		}
		switch {
		case r.Gateway.Net() == r.Net || r.Gateway.IsLoopback():
			return node.ErrInvalid
		case !local(r.Gateway.Net()):
			return node.ErrUnreachable
		case local(r.Net) || d.route(r.Net, r.Gateway) >= 0:
			return node.ErrExists
		}
		r.Up, r.SingleHop = true, false
		d.RouteList = append(d.RouteList, r)
		return nil
	})
}

func (d *Daemon) route(n lnet.Net, gateway lnet.NID) int {
	return slices.IndexFunc(d.RouteList, func(r api.Route) bool { return r.Net == n && r.Gateway == gateway })
}

// DeleteRoute removes a route from RouteList.
func (d *Daemon) DeleteRoute(_ context.Context, n lnet.Net, gateway lnet.NID) error {
	return d.change(fmt.Sprintf("DeleteRoute %s %s", n, gateway), func() error {
		k := d.route(n, gateway)
		if k < 0 {
			return node.ErrNotFound
		}
		d.RouteList = slices.Delete(d.RouteList, k, k+1)
		return nil
	})
}

// Routing returns Forwards.
func (d *Daemon) Routing() api.Routing { return d.Forwards }

// SetRouting sets the state in Forwards.
func (d *Daemon) SetRouting(_ context.Context, enabled bool) error {
	return d.change(fmt.Sprintf("SetRouting %v", enabled), func() error {
		d.Forwards.State = api.RoutingDisabled
		if enabled {
			d.Forwards.State = api.RoutingEnabled
			d.Forwards.Ever = true
		}
		return nil
	})
}

// SetBuffers sets Buffers.
func (d *Daemon) SetBuffers(_ context.Context, b api.Buffers) error {
	return d.change(fmt.Sprintf("SetBuffers %+v", b), func() error { d.Buffers = b; return nil })
}

// Globals returns Values.
func (d *Daemon) Globals() api.Globals {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Values
}

// SetGlobals changes Values, and computes lnd_timeout from them. It returns the errors that a node would
// return.
func (d *Daemon) SetGlobals(_ context.Context, c api.GlobalsChange) error {
	return d.change("SetGlobals", func() error {
		v := d.Values
		v.Values = maps.Clone(v.Values)
		for name, n := range c.Values {
			if name != "recovery_interval" {
				v.Values[name] = n
			}
		}
		retries, timeout := v.Values["retry_count"], v.Values["transaction_timeout"]
		if retries >= timeout || retries > 0 && v.Values["health_sensitivity"] == 0 {
			return fmt.Errorf("retry count %d: %w", retries, node.ErrInvalid)
		}
		v.Values["lnd_timeout"] = max((timeout-1)/(retries+1), 1)
		d.Values = v
		return nil
	})
}

// Rules returns the rules of Policies.
func (d *Daemon) Rules() []selection.Rule {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Policies.Rules()
}

// TypedRules returns the typed rules of Policies.
func (d *Daemon) TypedRules() []selection.TypedRule {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Policies.Typed()
}

// ChangePolicies changes Policies.
func (d *Daemon) ChangePolicies(_ context.Context, change func(p *selection.Policies) error) error {
	return d.change("ChangePolicies", func() error { return change(&d.Policies) })
}

// Explain calls ExplainFunc.
func (d *Daemon) Explain(to, source lnet.NID, portal uint32) selection.Explanation {
	if d.ExplainFunc == nil {
		return selection.Explanation{Err: selection.ErrUnreachable}
	}
	return d.ExplainFunc(to, source, portal)
}

// rules returns the fault rules. It creates them on first use.
func (d *Daemon) rules() *fault.Rules {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults == nil {
		d.faults = fault.New(1)
	}
	return d.faults
}

// AddFault adds a fault rule, which Arrive applies.
func (d *Daemon) AddFault(r fault.Rule) error { return d.rules().Add(r, 1) }

// RemoveFaults removes the matching fault rules and returns their number.
func (d *Daemon) RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int {
	return len(d.rules().Remove(k, source, dest))
}

// Faults lists the fault rules of a kind.
func (d *Daemon) Faults(k fault.Kind) []fault.Status { return d.rules().List(k) }

// ResetFaults resets the counters of the fault rules.
func (d *Daemon) ResetFaults() { d.rules().Reset() }

// Arrive applies the fault rules to a message. It reports whether the message is dropped.
func (d *Daemon) Arrive(m fault.Message) bool { return d.rules().DropArrival(&m, 2) }

// Selftest returns Lst.
func (d *Daemon) Selftest() server.Selftest {
	if d.Lst == nil {
		return noSelftest{}
	}
	return d.Lst
}

// noSelftest is a Selftest that cannot be enabled.
type noSelftest struct{}

func (noSelftest) Status() api.LstStatus               { return api.LstStatus{} }
func (noSelftest) Enable(api.LstBounds) error          { return syscall.EOPNOTSUPP }
func (noSelftest) Disable(context.Context, bool) error { return syscall.ENODEV }
func (noSelftest) Console() (*console.Console, error)  { return nil, syscall.ENODEV }

// Clients returns Guests.
func (d *Daemon) Clients() api.Clients {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Guests
}

// DropClient removes a client from Guests.
func (d *Daemon) DropClient(id uint64) error {
	return d.change(fmt.Sprintf("DropClient %d", id), func() error {
		k := slices.IndexFunc(d.Guests.Clients, func(c api.ClientInfo) bool { return c.ID == id })
		if k < 0 {
			return syscall.ENOENT
		}
		d.Guests.Clients = slices.Delete(slices.Clone(d.Guests.Clients), k, k+1)
		return nil
	})
}

// Events calls EventsFunc.
func (d *Daemon) Events(f api.EventFilter) server.Stream {
	if d.EventsFunc == nil {
		return Lines(nil)
	}
	return d.EventsFunc(f)
}

// Capture calls CaptureFunc.
func (d *Daemon) Capture(ctx context.Context, f capture.Filter) (server.Stream, error) {
	if d.Refuse != nil {
		if err := d.Refuse("Capture"); err != nil {
			return nil, err
		}
	}
	if d.CaptureFunc == nil {
		return Lines(nil), nil
	}
	return d.CaptureFunc(ctx, f)
}

// Lines returns a stream of the lines that are sent to the channel. It ends when the channel is closed, and at once if
// the channel is nil.
func Lines(c <-chan string) server.Stream { return lines(c) }

type lines <-chan string

func (l lines) Next(ctx context.Context) ([]byte, error) {
	if l == nil {
		return nil, io.EOF
	}
	select {
	case line, ok := <-l:
		if !ok {
			return nil, io.EOF
		}
		return []byte(line), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Stats returns Totals with Drops, Refusals and LogCounts.
func (d *Daemon) Stats() api.Stats {
	return api.Stats{Counters: d.Totals, Drops: d.Drops, Refusals: d.Refusals, Log: d.LogCounts}
}

// ResetCounters clears Totals, Drops and Refusals.
func (d *Daemon) ResetCounters() { d.Totals, d.Drops, d.Refusals = api.Counters{}, nil, nil }
