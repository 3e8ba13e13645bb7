package main

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// counted is a kind of objects that have the same counters.
type counted struct {
	// heading is the heading of the objects' names in a table, and names are those of the counters.
	heading string
	names   []string
	// always is the number of counters whose rates are printed even if they are 0 for all objects.
	always int
	// samples reads the objects from lnetd. The counters of a sample are valid until the next one.
	samples func(ctx context.Context, c *client.Client) iter.Seq2[sample, error]
}

// sample is an object with its counters. The key identifies it. Objects that have the same name are printed as one, with
// the sums of their rates.
type sample struct {
	key, name string
	// note is a remark on the state of the object. It is empty if the state is the usual one.
	note     string
	counters []uint64
}

// Names of counters that several kinds of objects have. Sent, received and dropped ones are messages.
const (
	countSent          = "sent"
	countReceived      = "received"
	countDropped       = "dropped"
	countSentBytes     = "sent_bytes"
	countReceivedBytes = "received_bytes"
)

// traffic are the names of the counters that NIs, clients and proxies have.
var traffic = []string{countSent, countReceived, countDropped, countSentBytes, countReceivedBytes}

// typeNames returns the names of the counters of messages by type, as messageCounts returns their values.
func typeNames() (names []string) {
	for _, direction := range traffic[:3] {
		for _, t := range []string{"put", "get", "reply", "ack", "hello"} {
			names = append(names, direction+"_"+t)
		}
	}
	return names
}

func messageCounts(sent, received, dropped *api.MessageCounts) (values []uint64) {
	for _, c := range []*api.MessageCounts{sent, received, dropped} {
		values = append(values, c.Put, c.Get, c.Reply, c.Ack, c.Hello)
	}
	return values
}

// niCounters are the counters of the NIs that get returns. Level 2 adds messages by type, and events that reduce the
// health.
func niCounters(level int64, get func(ctx context.Context, c *client.Client) (api.Nets, error)) counted {
	all := counted{heading: "NI", names: traffic, always: len(traffic)}
	if level >= 2 {
		all.names = slices.Concat(traffic, typeNames(), []string{"interrupts", "health_dropped", "aborted", "no_route", "timeouts", "errors"})
	}
	all.samples = func(ctx context.Context, c *client.Client) iter.Seq2[sample, error] {
		return func(yield func(sample, error) bool) {
			nets, err := get(ctx, c)
			if err != nil {
				yield(sample{}, err)
				return
			}
			for k := range nets.Nets {
				for i := range nets.Nets[k].NIs {
					n := &nets.Nets[k].NIs[i]
					s := sample{key: n.NID.String(), name: n.NID.String(), note: niNote(n), counters: []uint64{
						n.Statistics.Sent, n.Statistics.Received, n.Statistics.Dropped,
						driverCounter(n, "sent_bytes_total"), driverCounter(n, "received_bytes_total"),
					}}
					if level >= 2 {
						h := &n.Health
						s.counters = append(append(s.counters, messageCounts(&n.Sent, &n.Received, &n.Dropped)...),
							h.Interrupts, h.Dropped, h.Aborted, h.NoRoute, h.Timeouts, h.Errors)
					}
					if !yield(s, nil) {
						return
					}
				}
			}
		}
	}
	return all
}

func niNote(n *api.NI) string {
	switch {
	case n.Status != "up":
		return n.Status + ": " + orDash(n.Reason)
	case n.Health.Value < api.MaxHealth && !n.NID.IsLoopback():
		return "health " + strconv.Itoa(n.Health.Value)
	}
	return ""
}

// driverCounter returns a counter of the driver of an NI. It returns 0 if the driver does not have it.
func driverCounter(n *api.NI, name string) uint64 {
	for _, c := range n.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// peerCounters are the counters of the NIDs of the peers that each returns with a level of detail. Level 2 adds messages
// by type, and events that reduce the health.
func peerCounters(level int64, each func(ctx context.Context, c *client.Client, detail int) iter.Seq2[api.Peer, error]) counted {
	all := counted{heading: "peer NI", names: traffic[:3], always: 3}
	if level >= 2 {
		all.names = slices.Concat(all.names, typeNames(), []string{"health_dropped", "timeouts", "errors", "network_timeouts"})
	}
	all.samples = func(ctx context.Context, c *client.Client) iter.Seq2[sample, error] {
		return func(yield func(sample, error) bool) {
			for peer, err := range each(ctx, c, int(min(max(level, 1), 2))) {
				if err != nil {
					yield(sample{}, err)
					return
				}
				for k := range peer.NIs {
					n := &peer.NIs[k]
					s := sample{key: n.NID.String(), name: n.NID.String(), note: n.Trouble, counters: []uint64{
						n.Statistics.Sent, n.Statistics.Received, n.Statistics.Dropped,
					}}
					if level >= 2 {
						h := &n.Health
						s.counters = append(append(s.counters, messageCounts(&n.Sent, &n.Received, &n.Dropped)...),
							h.Dropped, h.Timeouts, h.Errors, h.NetworkTimeouts)
					}
					if !yield(s, nil) {
						return
					}
				}
			}
		}
	}
	return all
}

// clientCounters are the counters of clients and proxies. Completed operations of queues that send are counted as sent,
// and those of the others as received. Failed ones are counted as dropped. Level 1 has an object for each queue of each
// transfer machine.
func clientCounters(level int64) counted {
	return counted{heading: "program", names: traffic, always: len(traffic), samples: func(ctx context.Context, c *client.Client) iter.Seq2[sample, error] {
		return func(yield func(sample, error) bool) {
			all, err := c.Clients(ctx)
			if err != nil {
				yield(sample{}, err)
				return
			}
			for s := range clientSamples(&all, level) {
				if !yield(s, nil) {
					return
				}
			}
		}
	}}
}

func clientSamples(all *api.Clients, level int64) iter.Seq[sample] {
	return func(yield func(sample) bool) {
		for k := range all.Clients {
			c := &all.Clients[k]
			name := strconv.FormatUint(c.ID, 10) + " " + orDash(c.Program)
			if len(c.TMs) == 0 && !yield(sample{key: name, name: name, counters: make([]uint64, len(traffic))}) {
				return
			}
			for j := range c.TMs {
				for _, s := range tmSamples(name, &c.TMs[j], level) {
					if !yield(s) {
						return
					}
				}
			}
		}
		for k := range all.Proxies {
			x := &all.Proxies[k]
			name := "proxy " + x.Name + " " + x.NID.String()
			// A proxy that attaches again is another object.
			key := name + " " + x.Since.String()
			if !yield(sample{key: key, name: name, counters: []uint64{x.Sent, x.Received, x.Failed, x.SentBytes, x.ReceivedBytes}}) {
				return
			}
		}
	}
}

// tmSamples returns the queues of a transfer machine. On level 0 all have the name of the client.
func tmSamples(client string, t *api.ClientTM, level int64) (queues []sample) {
	tm := t.NID.String() + ":" + strconv.FormatUint(uint64(t.PID), 10) + ":" + strconv.FormatUint(uint64(t.Portal), 10) + ":" + strconv.Itoa(int(t.ID))
	for k := range t.Queues {
		q := &t.Queues[k]
		s := sample{key: client + " " + tm + " " + q.Queue, name: client, counters: make([]uint64, len(traffic))}
		if level >= 1 {
			s.name = s.key
		}
		count, bytes := 1, 4 // received
		if strings.HasSuffix(strings.ToUpper(q.Queue), "SEND") {
			count, bytes = 0, 3
		}
		s.counters[count], s.counters[bytes], s.counters[2] = q.Completed, q.Bytes, q.Failed
		if t.Kept > 0 {
			s.note = strconv.Itoa(t.Kept) + " completions are not read"
		}
		queues = append(queues, s)
	}
	return queues
}

// nodeGauges are those numbers of api.Counters that can decrease.
var nodeGauges = []string{"msgs_alloc", "msgs_max", "rst_alloc"}

// nodeCounters are the counters of the node for which keep returns true, each as an object. Level 1 adds drops and
// refusals by reason.
func nodeCounters(level int64, keep func(name string) bool) counted {
	return counted{heading: "counter", names: []string{"count"}, always: 1, samples: func(ctx context.Context, c *client.Client) iter.Seq2[sample, error] {
		return func(yield func(sample, error) bool) {
			s, err := c.Stats(ctx)
			if err != nil {
				yield(sample{}, err)
				return
			}
			for _, one := range nodeSamples(&s, level) {
				if keep(one.name) && !yield(one, nil) {
					return
				}
			}
		}
	}}
}

func nodeSamples(s *api.Stats, level int64) (all []sample) {
	add := func(name string, n uint64) { all = append(all, sample{key: name, name: name, counters: []uint64{n}}) }
	v := reflect.ValueOf(s.Counters)
	for k := range v.NumField() {
		if name := v.Type().Field(k).Tag.Get("json"); !slices.Contains(nodeGauges, name) {
			add(name, v.Field(k).Uint())
		}
	}
	if level >= 1 {
		for _, r := range s.Drops {
			add("drop: "+r.Reason, r.Count)
		}
		for _, r := range s.Refusals {
			add("refusal: "+r.Reason, r.Count)
		}
	}
	return all
}

// routeCounters are the counters of the gateways' NIDs of the routes that get returns. They count all messages with the
// gateway, not only those that take the route.
func routeCounters(get func(ctx context.Context, c *client.Client) ([]api.Route, error)) counted {
	return counted{heading: "route", names: traffic[:3], always: 3, samples: func(ctx context.Context, c *client.Client) iter.Seq2[sample, error] {
		return func(yield func(sample, error) bool) {
			routes, err := get(ctx, c)
			if err != nil {
				yield(sample{}, err)
				return
			}
			gateways := map[string]sample{}
			for _, r := range routes {
				gateway := r.Gateway.String()
				if _, known := gateways[gateway]; !known {
					if gateways[gateway], err = gatewaySample(ctx, c, gateway); err != nil {
						yield(sample{}, err)
						return
					}
				}
				s := gateways[gateway]
				s.name = r.Net.String() + " through " + gateway
				s.key = s.name
				if !r.Up {
					s.note = cmp.Or(s.note, "down")
				}
				if !yield(s, nil) {
					return
				}
			}
		}
	}}
}

// gatewaySample returns the counters of a gateway. They are 0 if lnetd has no peer with this NID.
func gatewaySample(ctx context.Context, c *client.Client, nid string) (sample, error) {
	s := sample{counters: make([]uint64, 3)}
	peers, err := c.Peers(ctx, nid)
	if err != nil && api.FaultOf(err).Code == api.CodePeerUnknown {
		return s, nil
	}
	for k := range peers {
		for i := range peers[k].NIs {
			if n := &peers[k].NIs[i]; n.NID.String() == nid {
				s.note, s.counters = n.Trouble, []uint64{n.Statistics.Sent, n.Statistics.Received, n.Statistics.Dropped}
			}
		}
	}
	return s, err
}
