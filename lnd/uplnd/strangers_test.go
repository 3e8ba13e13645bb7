package uplnd_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
)

// Processes that connect and send nothing keep no proxy away, however many they are: lnetd closes the oldest of
// their connections.
//
// UP-8
func TestSilentCallers(t *testing.T) {
	s := newSite(t, uplnd.Config{})
	openNI(t, s, self)
	const silent = 100
	var conns []*net.UnixConn
	for range silent {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.socket, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		defer func() { _ = conn.Close() }()
	}
	for range 3 {
		attach(t, s, self).ready()
	}
	if err := conns[0].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := conns[0].Read(make([]byte, protocol.MaxRecord)); n != 0 {
		t.Errorf("the oldest connection got a record of %d bytes, %v", n, err)
	}
}

// lineCounter counts the lines of a log.
type lineCounter struct{ lines atomic.Int64 }

func (c *lineCounter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (c *lineCounter) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c *lineCounter) WithGroup(string) slog.Handler                { return c }

func (c *lineCounter) Handle(context.Context, slog.Record) error {
	c.lines.Add(1)
	return nil
}

// A proxy that attaches again and again, and leaves or breaks the protocol, does not fill lnetd's log.
func TestLogIsBounded(t *testing.T) {
	c := &lineCounter{}
	s := newSite(t, uplnd.Config{AreaSize: 2 << 20, Quarantine: -1, Logger: slog.New(c)})
	u := openNI(t, s, self)
	const proxies = 100
	for k := range proxies {
		f := attach(t, s, self)
		if k%2 == 0 {
			f.report(protocol.Entry{Op: protocol.Lost, Peer: peer}, protocol.Entry{Op: protocol.PeerDown, Peer: peer})
			if err := f.cutOff(); !errors.Is(err, syscall.EPROTO) {
				t.Fatal(err)
			}
		}
		f.leave()
		u.awaitProxies(0)
	}
	const causes, each = 3, 3 // lines of each cause in a minute
	if n := c.lines.Load(); n > 2*causes*each {
		t.Errorf("%d lines about %d proxies", n, proxies)
	}
	if err := u.iface.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := c.lines.Load()
	s.close(t)
	if c.lines.Load() == written {
		t.Error("the end of the server has not written the lines that were left")
	}
}
