package uplnd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// The name, the area and the number of proxies can be limited. The NI says why it is not up.
//
// UP-2, UP-8
func TestTerms(t *testing.T) {
	s := newSite(t, uplnd.Config{Admit: func(conn *net.UnixConn, p *uplnd.Proxy) (uplnd.Terms, error) {
		if conn == nil || p.Net != proxied || p.PID != int32(os.Getpid()) {
			t.Errorf("asked about %+v", p)
		}
		return uplnd.Terms{Rule: "small", AreaSize: 4 << 20, MaxProxies: 2}, nil
	}})
	s.driver = s.server.Driver(proxied.Type(), "right")
	u := openNI(t, s, self)
	says := func(text string) {
		t.Helper()
		if cause := u.iface.(lnd.LinkExplainer).LinkCause(); !strings.Contains(cause, text) {
			t.Errorf("the NI is down because %q, want %q", cause, text)
		}
	}
	ask := func(name string) (*protocol.Attached, error) {
		a := protocol.Attach{Net: proxied, Name: name}
		reply, conn, _, err := request(s.socket, a.Append(nil))
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return reply, err
	}
	says(`no proxy with the name "right"`)
	if _, err := ask("wrong"); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), `for proxies with the name "right"`) {
		t.Errorf("another name: %v", err)
	}
	says(`proxy "wrong", pid`)
	for range 2 {
		if reply, err := ask("right"); err != nil || reply.AreaSize != 4<<20 || reply.NID != self {
			t.Fatal(reply, err)
		}
	}
	says("has not reported")
	if _, err := ask("right"); !errors.Is(err, syscall.EDQUOT) || !strings.Contains(err.Error(), `rule "small"`) {
		t.Errorf("a third proxy: %v", err)
	}
	list := s.server.Proxies()
	if len(list) != 2 || list[0].Rule != "small" || list[1].Name != "right" || list[1].PID != int32(os.Getpid()) || list[0].Up {
		t.Errorf("proxies: %+v", list)
	}
}

// The status of a proxy counts what it has and what it has done. A new timeout reaches it.
func TestStatus(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	u.await(t, "link up")
	u.put(peer, 1, []byte("five!"))
	u.put(peer, 2, nil)
	sends := [2]protocol.Entry{f.order(protocol.Send), f.order(protocol.Send)}
	if p := s.server.Proxies()[0]; !p.Up || p.Sends != 2 || p.Sent != 0 || !slices.Equal(p.PIDs, []lnet.PID{lnet.PIDLustre}) {
		t.Errorf("with two messages: %+v", p)
	}
	tune := u.iface.(lnd.Tuner).Tune
	if err := tune(lnd.Values{"timeout": 7}); err != nil || u.iface.Options()["timeout"] != 7 {
		t.Error(err)
	}
	if err := tune(lnd.Values{"timeout": -1}); err == nil {
		t.Error("a negative timeout is accepted")
	}
	if e := f.order(protocol.Timeout); e.Time != uint64(7*time.Second) {
		t.Errorf("the timeout is %v", e.Time)
	}
	f.report(protocol.Entry{Op: protocol.Sent, Handle: sends[0].Handle},
		protocol.Entry{Op: protocol.Sent, Handle: sends[1].Handle, Status: lnd.StatusRemoteDropped},
		protocol.Entry{Op: protocol.Arrived, Handle: 1, Peer: peer, Header: header(3), HasPayload: true, Offset: f.half})
	u.await(t, "received 3: ok")
	u.await(t, "sent 2: remote dropped")
	p := s.server.Proxies()[0]
	if p.Sends+p.Waiting+p.Arrivals != 0 || p.Sent != 1 || p.SentBytes != 5 || p.Failed != 1 || p.Received != 1 || p.ReceivedBytes != 3 {
		t.Errorf("in the end: %+v", p)
	}
}

// The reason why an NI has no proxy is a refusal of a proxy for this NI, until the next proxy has left.
func TestRefusals(t *testing.T) {
	s := newSite(t, uplnd.Config{Admit: func(_ *net.UnixConn, p *uplnd.Proxy) (uplnd.Terms, error) {
		if p.Name == "two" {
			return uplnd.Terms{}, syscall.EACCES
		}
		return uplnd.Terms{}, nil
	}})
	s.driver = s.server.Driver(proxied.Type(), "fake")
	one := openNI(t, s, self)
	s.driver = s.server.Driver(proxied.Type(), "two")
	other, err := s.driver.Open(t.Context(), lnd.Config{NID: numbered(9), Upper: newUpper()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	says := func(i lnd.Interface, text string) {
		t.Helper()
		if cause := i.(lnd.LinkExplainer).LinkCause(); !strings.Contains(cause, text) {
			t.Errorf("the NI is down because %q, want %q", cause, text)
		}
	}
	ask := func(name string) {
		t.Helper()
		a := protocol.Attach{Net: proxied, Name: name}
		if _, _, _, err := request(s.socket, a.Append(nil)); err == nil {
			t.Errorf("proxy %q is attached", name)
		}
	}
	ask("two")
	says(other, `proxy "two", pid`)
	says(one.iface, `no proxy with the name "fake" is attached`)
	f := attach(t, s, self)
	ask("wrong")
	f.leave()
	one.awaitProxies(0)
	says(one.iface, `no proxy with the name "fake" is attached`)
	ask("wrong")
	says(one.iface, `was refused at 20`)
	f = attach(t, s, self)
	f.report(protocol.Entry{Op: protocol.Send})
	_ = f.cutOff()
	one.awaitProxies(0)
	says(one.iface, `was cut off at 20`)
}

// A message to the NI that it is sent from never reaches a proxy, which has no such peer. Errors of other messages
// have the reason why no proxy takes them.
//
// UP-9
func TestUnservedMessages(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	u := openNI(t, s, self)
	reason := func(to lnet.ProcessID, text string) {
		t.Helper()
		done := make(chan error, 1)
		u.iface.Send(&lnd.Tx{To: to, Done: sentTo(done)})
		if err := <-done; !errors.Is(err, lnd.ErrUnreachable) || !strings.Contains(err.Error(), text) {
			t.Errorf("sending to %v: %v, want %q", to, err, text)
		}
	}
	reason(peer, "no proxy is attached")
	f := attach(t, s, self)
	f.ready(lnet.PIDLustre)
	u.await(t, "link up")
	reason(lnet.ProcessID{NID: peer.NID, PID: 7}, "no proxy has PID 7")
	reason(lnet.ProcessID{NID: self, PID: lnet.PIDLustre}, "to itself")
	f.nothing()
}

// sentTo implements lnd.Sender.
type sentTo chan error

func (s sentTo) Sent(_ *lnd.Tx, err error) { s <- err }
