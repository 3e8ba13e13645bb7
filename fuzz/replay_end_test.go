package fuzz

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/internal/testing/tshark"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// probe pings our node from the kernels on every CONTROL connection. The next unit that our node
// sends there must be the answer, which shows that it has sent everything.
func (p *replay) probe() {
	p.t.Helper()
	if calls := p.stage.unexpected(); len(calls) > 0 {
		p.t.Errorf("our node has called as no kernel did: %v", calls)
	}
	for _, c := range p.order() {
		if !p.ended[c] {
			p.pingOn(c)
		}
	}
}

// pingOn pings our node on a CONTROL connection and waits for the answer.
func (p *replay) pingOn(c *recording.Conversation) {
	p.t.Helper()
	k := slices.IndexFunc(p.steps, func(s *step) bool { return s.c == c && s.Kind == recording.KindHello && !s.ours })
	hello := p.steps[k].Hello
	if hello.Type != protocol.Control {
		return
	}
	u := recording.Unit{Kind: recording.KindMessage, Version: hello.Version}
	u.Frame.Type = protocol.FrameLNet
	u.Header = lnet.Header{
		Type: lnet.MsgGet, Dest: hello.Dst, Src: hello.Src, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Handle: lnet.Handle{Interface: 1, Object: uint64(k)}, MatchBits: lnet.PingMatchBits, Length: lnet.PingBufferMin,
	}
	rewrite(p.t, &u)
	p.wire(c).say(&u)
	got := p.wire(c).next("the answer to a ping of ours")
	if got.Kind != recording.KindMessage || got.Header.Type != lnet.MsgReply || got.Header.Handle != u.Header.Handle {
		p.t.Errorf("%s: we say more than the kernel: %+v", c.Addrs[recording.Active], read(&got))
	}
}

// compareState compares our node's view of its peers with the kernel's at the end.
func (p *replay) compareState() {
	p.t.Helper()
	var got []string
	for _, q := range p.node.Peers() {
		var nids []string
		for _, i := range q.NIs {
			nids = append(nids, i.NID.String())
		}
		got = append(got, fmt.Sprintf("%s multi-rail %t: %s", q.Primary, q.MultiRail, strings.Join(nids, " ")))
	}
	slices.Sort(got)
	if diff := cmp.Diff(p.role.peers, got); diff != "" {
		p.t.Errorf("peers: kernel (-), we (+):\n%s", diff)
	}
	for _, r := range p.node.Admin().Routes() {
		if !r.Up || !r.SingleHop {
			p.t.Errorf("route %+v, want it up", r)
		}
	}
}

// closes ends a connection when its first side did in the recording. If that is the kernel, our node must
// close the connection without sending more.
func (p *replay) closes(c *recording.Conversation, ours recording.Side) {
	var at time.Time
	first := ours
	for _, side := range []recording.Side{ours, ours.Other()} {
		if t := c.Ended[side]; c.Ends[side] != recording.EndOpen && (at.IsZero() || t.Before(at)) {
			at, first = t, side
		}
	}
	if at.IsZero() || p.role.until > 0 && at.Sub(p.begin) > p.role.until {
		return
	}
	p.ends = append(p.ends, adminAction{at.Sub(p.begin), func(p *replay) {
		p.t.Helper()
		w := p.wire(c)
		if first != ours {
			w.hangUp()
		}
		for _, u := range w.rest() {
			p.t.Errorf("%s: we say more than the kernel: %+v", c.Addrs[recording.Active], read(&u))
		}
		p.ended[c] = true
	}})
}

// end closes our node. It must send nothing, except that a router announces that it no longer routes
// (decisions 23).
func (p *replay) end() {
	p.t.Helper()
	if p.selftest != nil {
		p.selftest.end()
	}
	wasRouter := p.node.Admin().Routing().State != node.RoutingDisabled
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.node.Close(ctx); err != nil {
		p.t.Error(err)
	}
	farewells := 0
	for c, w := range p.wires {
		for _, u := range w.rest() {
			info, _ := lnet.DecodePingInfo(u.Payload, lnet.InterfacesMax)
			if wasRouter && u.IsPush() && info.Features&lnet.FeatRoutingDisabled != 0 {
				farewells++
				continue
			}
			p.t.Errorf("%s: we say more than the kernel: %+v", c.Addrs[recording.Active], read(&u))
		}
	}
	if wasRouter && farewells != len(p.role.peers) {
		p.t.Errorf("%d of %d peers were told that we route no more", farewells, len(p.role.peers))
	}
}

// checkAllowances checks that a role names exactly the allowances that it needs, apart from those that
// depend on timing.
func (p *replay) checkAllowances() {
	p.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(p.used)) {
		if !slices.Contains(byChance, name) && !slices.Contains(p.role.chance, name) && !slices.Contains(p.role.differs, name) {
			p.t.Errorf("differs %d times in the %s: not allowed here", p.used[name], name)
		}
	}
	for _, name := range p.role.differs {
		if p.used[name] == 0 {
			p.t.Errorf("never differs in the %s, as is allowed", name)
		}
	}
	p.t.Logf("%d units played, %d left; differs in %v", len(p.steps), p.left, p.used)
	if p.left != p.role.left {
		p.t.Errorf("%d units are not played, want %d", p.left, p.role.left)
	}
}

// streams returns what our node has sent on each connection.
func (p *replay) streams() []tshark.Stream {
	var streams []tshark.Stream
	for _, c := range p.order() {
		name := fmt.Sprintf("%s %s %s", p.role.file, p.role.name, c.Addrs[recording.Active])
		streams = append(streams, tshark.Stream{Name: name, Bytes: p.wires[c].got})
	}
	return streams
}
