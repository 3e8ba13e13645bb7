package uplnd_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// An NI without a NID has that of the host's primary address, or of its device's. A proxy that names only the net
// gets this NID.
//
// UP-1, UP-3
func TestNIDOfTheHost(t *testing.T) {
	device := func(name, address string) hostnet.Device {
		return hostnet.Device{Name: name, Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix(address)}}
	}
	s := newSite(t, uplnd.Config{Host: hostnettest.New(device("eth0", "10.1.0.1/24"), device("eth1", "10.1.1.1/24"))})
	defer s.close(t)
	for k, c := range []struct{ device, nid string }{{"", "10.1.0.1@tcp3"}, {"eth1", "10.1.1.1@tcp4"}} {
		net := lnet.MakeNet(proxied.Type(), uint16(3+k))
		i, err := s.driver.Open(t.Context(), lnd.Config{Net: net, Device: c.device, Upper: newUpper()})
		if err != nil {
			t.Fatal(err)
		}
		a, conn, fds, err := request(s.socket, (&protocol.Attach{Net: net, Name: "asks"}).Append(nil))
		if err != nil || i.NID().String() != c.nid || a.NID != i.NID() {
			t.Errorf("device %q: NI %s, proxy %+v, %v; want %s", c.device, i.NID(), a, err, c.nid)
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A proxy has at most a quarter of a ring of messages. Others wait, urgent ones first, and each that ends makes
// room for one. Each message ends with the status that the proxy reports.
//
// UP-4, UP-5
func TestPendingMessages(t *testing.T) {
	const entries, most, messages = 64, 16, 40
	s := newSite(t, uplnd.Config{Entries: entries})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	u.await(t, "link up")
	for k := range uint64(messages) {
		u.put(peer, k, fmt.Appendf(nil, "payload %d", k))
	}
	u.send(peer, messages, nil, true)
	var had []protocol.Entry
	next := func(number uint64) {
		t.Helper()
		e := f.order(protocol.Send)
		payload := string(f.area.Bytes()[e.Offset:][:e.Length])
		if e.Header.MatchBits != number || number < messages && payload != fmt.Sprintf("payload %d", number) {
			t.Fatalf("message %d with %q, want %d", e.Header.MatchBits, payload, number)
		}
		had = append(had, e)
	}
	for k := range uint64(most) {
		next(k)
	}
	ends := func(k int) {
		t.Helper()
		status := lnd.Status(k % int(lnd.StatusNetworkTimeout+1))
		sent := protocol.Entry{Op: protocol.Sent, Handle: had[k].Handle}
		if status != lnd.StatusOK {
			sent.SetError(&lnd.Error{Status: status, Err: lnd.ErrTimeout})
		}
		f.report(sent)
		u.await(t, fmt.Sprintf("sent %d: %v", had[k].Header.MatchBits, status))
	}
	for k := range messages + 1 {
		f.nothing()
		ends(k)
		switch {
		case k == 0:
			next(messages) // the urgent one
		case most+k <= messages:
			next(uint64(most + k - 1))
		}
	}
}

// Proxies of two nets do not affect each other: the death of one ends its messages and its NI's link alone.
//
// UP-8
func TestSeveralNets(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	other := lnet.MakeNet(proxied.Type(), 1)
	first := openNI(t, s, self)
	second, err := s.driver.Open(t.Context(), lnd.Config{NID: lnet.NIDFromNumber(other, 1), Upper: newUpper()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close(context.Background()) }()
	a, b := attach(t, s, self), attach(t, s, second.NID())
	a.ready(lnet.PIDLustre)
	b.ready(lnet.PIDLustre)
	first.await(t, "link up")
	first.put(peer, 1, []byte("to a"))
	sent := a.order(protocol.Send)
	b.leave()
	for second.Link() != lnd.LinkDown {
		time.Sleep(time.Millisecond)
	}
	a.report(protocol.Entry{Op: protocol.Sent, Handle: sent.Handle})
	first.await(t, "sent 1: ok")
	if first.iface.Link() != lnd.LinkUp {
		t.Error("the link of the first NI is down")
	}
}

// Two proxies of an NI reach peers with equal NIDs and different PIDs. When one dies, the other's peer is not
// affected.
//
// UP-8, PT-3
func TestEqualNIDs(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	a, b := attach(t, s, self), attach(t, s, self)
	var to [2]lnet.ProcessID
	for k, f := range []*fake{a, b} {
		f.report(protocol.Entry{Op: protocol.AllocatePID})
		to[k] = lnet.ProcessID{NID: peer.NID, PID: f.order(protocol.PID).Peer.PID}
		f.report(protocol.Entry{Op: protocol.Link, Up: true})
	}
	u.await(t, "link up")
	for number := range uint64(10) {
		u.put(to[number%2], number, nil)
		if e := []*fake{a, b}[number%2].order(protocol.Send); e.Header.MatchBits != number || e.Peer != to[number%2] {
			t.Fatalf("message %d of another process: %+v", number, e)
		}
	}
	b.leave()
	u.await(t, "sent 9: remote error")
	u.put(to[1], 11, nil)
	u.await(t, "sent 11: remote dropped")
	u.put(to[0], 10, nil)
	a.order(protocol.Send)
}

// A proxy gets a limited number of PIDs, so that another one of the NI gets some too. They are free when it leaves.
//
// UP-3, UP-8
func TestManyPIDs(t *testing.T) {
	const most = 256
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	greedy, other := attach(t, s, self), attach(t, s, self)
	causes := func(f *fake, op protocol.Op, n int) (busy int) {
		for k := range n {
			f.report(protocol.Entry{Op: op, Peer: lnet.ProcessID{PID: lnet.PID(k)}})
			if f.order(protocol.PID).Cause == protocol.CauseBusy {
				busy++
			}
		}
		return busy
	}
	if n := causes(greedy, protocol.RegisterPID, most/2); n > 0 {
		t.Errorf("%d PIDs were not registered", n)
	}
	if n := causes(greedy, protocol.AllocatePID, most); n != most/2 {
		t.Errorf("%d PIDs were not allocated, want %d", n, most/2)
	}
	if n := causes(greedy, protocol.RegisterPID, most); n != most/2 {
		t.Errorf("%d PIDs were not registered, want %d: the proxy has the others", n, most/2)
	}
	other.ready(lnet.PIDLustre)
	greedy.leave()
	u.awaitProxies(1)
	if n := causes(other, protocol.RegisterPID, most-1); n > 0 {
		t.Errorf("%d PIDs are not free", n)
	}
}

// closeSteps are what a proxy and its node have done when the connection ends. Each step follows the one before.
var closeSteps = []struct {
	name string
	do   func(u *upper, f *fake)
}{
	{"attached", func(*upper, *fake) {}},
	{"PID asked for", func(_ *upper, f *fake) { f.report(protocol.Entry{Op: protocol.AllocatePID}) }},
	{"PID allocated", func(_ *upper, f *fake) { f.order(protocol.PID) }},
	{"PID registered", func(_ *upper, f *fake) {
		f.report(protocol.Entry{Op: protocol.RegisterPID, Peer: lnet.ProcessID{PID: lnet.PIDLustre}})
		f.order(protocol.PID)
	}},
	{"link up", func(u *upper, f *fake) {
		f.report(protocol.Entry{Op: protocol.Link, Up: true})
		u.await(f.t, "link up")
	}},
	{"a message ordered", func(u *upper, _ *fake) { u.put(peer, 1, make([]byte, lnet.MTU)) }},
	{"no buffer for another", func(u *upper, _ *fake) { u.put(peer, 2, make([]byte, lnet.MTU)) }},
	{"the message read", func(_ *upper, f *fake) { f.first = f.order(protocol.Send).Handle }},
	{"the message recalled", func(u *upper, _ *fake) {
		u.iface.Recall(lnet.NID{}, func(m *lnd.Tx) bool { return m.Header.MatchBits == 1 })
	}},
	{"header first", func(u *upper, f *fake) {
		f.report(protocol.Entry{Op: protocol.Arrived, Handle: 1, Peer: peer, Header: header(9)})
		u.await(f.t, "held")
	}},
	{"payload ahead", func(u *upper, f *fake) {
		f.report(protocol.Entry{Op: protocol.Arrived, Handle: 2, Peer: peer, Header: header(9), HasPayload: true, Offset: f.half})
		u.await(f.t, "held")
	}},
	{"payload asked for", func(u *upper, f *fake) {
		f.report(protocol.Entry{Op: protocol.Arrived, Handle: 3, Peer: peer, Header: header(9)})
		u.await(f.t, "held")
		u.placeNewest()
	}},
	{"withdrawn", func(u *upper, f *fake) {
		f.report(
			protocol.Entry{Op: protocol.Arrived, Handle: 4, Peer: peer, Header: header(9)},
			protocol.Entry{Op: protocol.Withdrawn, Handle: 4},
		)
		u.await(f.t, "withdrawn")
	}},
	{"message sent", func(u *upper, f *fake) {
		f.order(protocol.Recall)
		f.report(protocol.Entry{Op: protocol.Sent, Handle: f.first})
		u.await(f.t, "sent 1: ok")
	}},
}

// The connection of a proxy ends after each step of the protocol, in each way: it is closed, the sending side of
// the socket is shut down, or lnetd ends it because of a violation. Then all messages have ended exactly once, no
// descriptor is left, and another proxy of the NI carries messages.
//
// UP-2, PT-3
func TestCloseAtEachStep(t *testing.T) {
	for name, end := range map[string]func(f *fake){
		"closed":    func(f *fake) { f.leave() },
		"shut down": func(f *fake) { _ = f.conn.CloseWrite() },
		"violation": func(f *fake) { _, _ = f.conn.Write([]byte("a second record")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, uplnd.Config{AreaSize: 2 << 20, Quarantine: -1})
			u := openNI(t, s, self)
			u.set(&u.hold, true)
			before := descriptors(t)
			for last := range closeSteps {
				u.reset()
				f := attach(t, s, self)
				for _, step := range closeSteps[:last+1] {
					step.do(u, f)
				}
				end(f)
				u.awaitProxies(0)
				f.leave()
				u.placeHeld()
				u.awaitEnds(t, closeSteps[last].name)
				for deadline := time.Now().Add(time.Minute); descriptors(t) != before; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: %d descriptors, %d before", closeSteps[last].name, descriptors(t), before)
					}
				}
			}
			f := attach(t, s, self)
			f.ready(lnet.PIDLustre)
			u.put(peer, 3, []byte("next"))
			f.report(protocol.Entry{Op: protocol.Sent, Handle: f.order(protocol.Send).Handle})
			u.await(t, "sent 3: ok")
		})
	}
}

// descriptors returns the number of this process's descriptors, apart from those of the runtime and the files that
// a test's output needs.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if to, err := os.Readlink(name); err == nil && (strings.HasPrefix(to, "socket:") || strings.Contains(to, "memfd:") || strings.Contains(to, "eventfd")) {
			n++
		}
	}
	return n
}
