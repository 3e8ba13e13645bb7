package fuzz

import (
	"context"
	"fmt"
	"net/netip"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	driver "github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// rdmaNode is a whole node, with a well-behaved peer beside the stranger.
type rdmaNode struct {
	*rdmaAttack
	it, friend *rdmaHost
	operations []*strangerOperation
}

// rdmaHost is a node on the fabric.
type rdmaHost struct {
	node   *node.Node
	driver *driver.Driver
	proc   *fabric.Process
	id     lnet.ProcessID
}

func newRDMANode(s *rdmaAttack) rdmaVictim {
	return &rdmaNode{rdmaAttack: s, it: s.host(rdmaVictimAddr), friend: s.host(rdmaFriendAddr)}
}

func (s *rdmaAttack) host(a netip.Addr) *rdmaHost {
	s.Helper()
	h := &rdmaHost{id: lnet.ProcessID{NID: o2ibNID(a), PID: lnet.PIDLustre}}
	h.driver, h.proc = s.newDriver(a)
	p := node.DefaultParameters()
	p.Discovery = discovery.Static
	var err error
	if h.node, err = node.New(node.Config{Parameters: &p, Seed: 1}); err != nil {
		s.Fatal(err)
	}
	addNI(s.T, h.node, h.driver, h.id.NID)
	_, err = h.node.Attach(portals.Entry{Portal: openPortal, IgnoreBits: ^uint64(0)}, portals.MD{
		Bytes: make([]byte, 1<<16), Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.Truncate | portals.ManageRemote,
	})
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// ask implements rdmaVictim.
func (v *rdmaNode) ask(t lnet.MsgType, n int) {
	o := &strangerOperation{}
	v.operations = append(v.operations, o)
	md := portals.MD{Bytes: make([]byte, n), Threshold: 2, Handler: o}
	h, err := v.it.node.Bind(md)
	if err != nil {
		v.Fatal(err)
	}
	o.handle = h
	to := lnet.ProcessID{NID: o2ibNID(rdmaStranger), PID: lnet.PIDLustre}
	if t == lnet.MsgGet {
		err = v.it.node.Get(h, to, node.GetOptions{Portal: openPortal})
	} else {
		err = v.it.node.Put(h, to, node.PutOptions{Portal: openPortal, Ack: n%512 == 0})
	}
	o.refused = err != nil
}

// checkWorks makes the victim and its friend exchange messages.
func (v *rdmaNode) checkWorks() {
	v.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), friendPatience)
	defer cancel()
	for _, n := range []int{100, 1 << 16} {
		if _, err := v.friend.node.PutWait(ctx, make([]byte, n), v.it.id, node.PutOptions{Portal: openPortal, Ack: true}); err != nil {
			v.Errorf("the friend cannot send %d bytes: %v", n, err)
		}
		if _, err := v.it.node.GetWait(ctx, make([]byte, n), v.friend.id, node.GetOptions{Portal: openPortal}); err != nil {
			v.Errorf("the victim cannot fetch %d bytes: %v", n, err)
		}
	}
}

func (v *rdmaNode) counters() []lnd.Counter { return v.it.node.NIs()[1].Driver }

// check implements rdmaVictim.
func (v *rdmaNode) check() {
	time.Sleep(longEnough)
	for k, o := range v.operations {
		if err := v.it.node.Unlink(o.handle); err == nil {
			synctest.Wait()
		}
		o.mu.Lock()
		if o.sends > 1 || o.sends == 0 && !o.refused || o.unlinked != 1 || o.answers > 1 {
			v.Errorf("operation %d: refused %t, %d SEND events, %d answers, %d ends", k, o.refused, o.sends, o.answers, o.unlinked)
		}
		o.mu.Unlock()
	}
	v.checkWorks()
	v.checkQuiet()
}

// checkQuiet waits until nothing is in progress at the victim. It may just be probing the stranger, or
// itself.
func (v *rdmaNode) checkQuiet() {
	v.Helper()
	var left string
	for range friendPatience / (100 * time.Millisecond) {
		c, i := v.it.node.Admin().Counters(), v.it.node.NIs()[1]
		n := v.counter("connections") // to the friend, which either side may have opened, and both ends of one to itself
		if c.Committed == 0 && i.Credits.Available == i.Credits.Max && n <= 2+2 {
			return
		}
		left = fmt.Sprintf("%d messages are under way, credits are %+v, %d connections are left", c.Committed, i.Credits, n)
		time.Sleep(100 * time.Millisecond)
	}
	v.Error(left)
}

func (v *rdmaNode) close() {
	for _, h := range []*rdmaHost{v.it, v.friend} {
		if err := h.node.Close(context.Background()); err != nil {
			v.Error(err)
		}
		if err := h.driver.Close(); err != nil {
			v.Error(err)
		}
		if err := h.proc.Close(); err != nil {
			v.Error(err)
		}
	}
}
