package doctor

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

func nid(t *testing.T, s string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serve serves the control interface of a daemon in memory, and returns a Doctor for it.
func serve(t *testing.T, d *controltest.Daemon) *Doctor {
	t.Helper()
	path := filepath.Join(testenv.SocketDir(t), "control.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&server.Server{Backend: d}).Serve(ctx, l) }()
	c := client.New(path)
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &Doctor{Client: c, Timeout: time.Minute}
}

// A NID that does not answer leaves no peer in lnetd, unless lnetd knew it before, or a program uses it.
func TestForgetsWhatDoesNotAnswer(t *testing.T) {
	target := nid(t, "10.0.0.7@tcp")
	peer := api.Peer{Primary: target, Unanswered: true, NIs: []api.PeerNI{{NID: target}}}
	for _, c := range []struct {
		name          string
		before, after []api.Peer
		want          []string
	}{
		{"unknown", nil, []api.Peer{peer}, []string{"DeletePeer 10.0.0.7@tcp false"}},
		{"known", []api.Peer{peer}, []api.Peer{peer}, nil},
		{"used", nil, []api.Peer{{Primary: target, NIs: peer.NIs}}, nil},
		{"none", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &controltest.Daemon{
				PeerList: slices.Clone(c.before),
				ExplainFunc: func(lnet.NID, lnet.NID, uint32) selection.Explanation {
					return selection.Explanation{Err: node.ErrUnreachable}
				},
			}
			d.PingFunc = func(context.Context, lnet.ProcessID, lnet.NID) (api.PingResult, error) {
				d.PeerList = slices.Clone(c.after)
				return api.PingResult{}, node.ErrTimedOut
			}
			f, err := serve(t, d).Collect(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if f.Peer.Ping.Error == nil {
				t.Errorf("the ping was answered: %+v", f.Peer)
			}
			if diff := cmp.Diff(c.want, d.Done); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The facts contain the stuck loops that lnetd reports.
func TestStuckDaemon(t *testing.T) {
	d := &controltest.Daemon{Is: api.Version{Program: "lnetd", PID: -1, Stuck: "discoverer"}}
	f, err := serve(t, d).Collect(t.Context(), lnet.NID{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Stuck != "discoverer" || f.Host != nil || f.HostUnknown == "" {
		t.Errorf("%+v", f)
	}
	if skipped := diagnosis.Skipped(f); len(skipped) != 1 || skipped[0].Reason != f.HostUnknown {
		t.Errorf("%+v", skipped)
	}
}
