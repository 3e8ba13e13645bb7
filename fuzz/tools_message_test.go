package fuzz

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	nettest "github.com/lnetd/lnetd/internal/load/nettest/message"
	tmping "github.com/lnetd/lnetd/internal/load/tmping/message"
)

// FuzzPingTexts reads what clients of "lnetperf ping" send.
//
// transport 10.1 protocol
func FuzzPingTexts(f *testing.F) {
	f.Add(tmping.AppendText(nil, tmping.PingText))
	f.Add(tmping.AppendRequest(nil, tmping.Recv, bytes.Repeat([]byte{7}, 48), 0))
	f.Add(tmping.AppendRequest(nil, tmping.Send, bytes.Repeat([]byte{7}, 48), 1<<20))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = tmping.CheckBulk(b, len(b), "")
		_ = tmping.CheckBulk(b, 0, tmping.ActiveText)
		m, err := tmping.Parse(b)
		if err != nil {
			return
		}
		again := tmping.AppendText(nil, string(m.Text))
		if m.Kind != tmping.Text {
			again = tmping.AppendRequest(nil, m.Kind, m.Descriptor, m.Size)
		}
		if !bytes.HasPrefix(b, again) {
			t.Errorf("%q is %q again", b, again)
		}
	})
}

// FuzzTestCommands reads what consoles and nodes of a network test send each other.
//
// transport 10.3 commands
func FuzzTestCommands(f *testing.F) {
	test := &nettest.Test{Role: nettest.Server, Kind: nettest.Bulk, Peers: []string{"0@lo:12345:42:1"}, Messages: 1}
	for _, c := range []nettest.Command{
		{Type: nettest.Init, Sequence: 1, Test: test}, {Type: nettest.InitDone, Errno: syscall.EALREADY},
		{Type: nettest.StatusData, Figures: &figures.Figures{}}, {Type: nettest.Stop},
	} {
		b, err := c.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := nettest.ParseCommand(b)
		if err != nil {
			if !errors.Is(err, syscall.EPROTO) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		_ = c.Type.String()
		if c.Test != nil {
			_ = c.Test.Check()
		}
		if c.Figures != nil {
			sum := figures.Total([]figures.Figures{*c.Figures, *c.Figures})
			_, _, _ = sum.RTT.Mean(), sum.RTT.Deviation(), sum.Latency.Quantile(0.99)
			_ = sum.Failures()
		}
		if _, err := c.Append(nil); err != nil && !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("%q is not a command again: %v", b, err)
		}
	})
}

// FuzzTestData reads what clients and servers of a network test send each other.
//
// transport 10.3 ping
func FuzzTestData(f *testing.F) {
	ping := make([]byte, nettest.PingHead)
	nettest.PingHeader{Slot: 1, Sequence: 2, Sent: 3}.Put(ping)
	f.Add(ping)
	d := bytes.Repeat([]byte{7}, 48)
	f.Add(nettest.AppendBulk(nil, []nettest.Pair{{Send: d, Recv: d}, {Send: d[:1], Recv: d}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := nettest.ParsePing(b); ok {
			again := make([]byte, nettest.PingHead)
			h.Put(again)
			if !bytes.HasPrefix(b, again) {
				t.Errorf("%q is %q again", b, again)
			}
		}
		pairs, err := nettest.ParseBulk(nil, b)
		if err != nil {
			if !errors.Is(err, syscall.EPROTO) {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		if again := nettest.AppendBulk(nil, pairs); !bytes.Equal(again, b) {
			t.Errorf("%q is %q again", b, again)
		}
	})
}
