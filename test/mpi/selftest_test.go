//go:build mpi && cgo

package mpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/selftest"
	"github.com/lnetd/lnetd/selftest/report"
)

// Ranks are the clients of tests of LNet selftest, whose console is lnetd. The server is lnetd, which they reach through
// its proxy, and then a node on tcp, which they reach through lnetd as a router. lnetd has its NID on tcp, since it does
// not reach its own NID on mpi.
//
// MT-4, PT-5
func TestSelftest(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 2
		s := newSite(t, 1)
		agent, err := selftest.Enable(s.node, selftest.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := agent.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		j := l.start(t, fmt.Sprint(ranks), s.order("lst"), s.proxies()...)
		up := j.await("up", ranks)
		var nids []string
		for _, r := range up {
			nids = append(nids, r.NID)
		}
		from := fmt.Sprintf("%d-%s", uint32(up[0].PID), strings.Join(nids, ","))
		for _, to := range []string{s.nid(tcpNet, 0).String(), s.node.NID().String()} {
			for _, test := range []string{"--ping", "--size 4K --write --check full", "--size 1M --check full"} {
				words := append([]string{"lst", "quick", "--json", "--from", from, "--to", to, "--time", "1s"}, strings.Fields(test)...)
				out, status := s.lnetd[0].Ctl(t, words...)
				if t.Logf("%s to %s:\n%s", test, to, out); status != 0 {
					t.Errorf("%q: status %d\n%s", words, status, j.Output())
				}
				checkRPCs(t, out)
			}
		}
		s.stopLoad(up)
		if err := j.Wait(); err != nil {
			t.Errorf("%v\n%s", err, j.Output())
		}
	})
}

// checkRPCs checks the last line of the output of "lst quick --json": clients have called servers, without an error.
func checkRPCs(t *testing.T, out string) {
	t.Helper()
	out = strings.TrimSpace(out)
	var result struct {
		Total  report.Interval
		Failed bool
	}
	err := json.Unmarshal([]byte(out[strings.LastIndexByte(out, '\n')+1:]), &result)
	if err != nil || result.Failed || result.Total.RPC.Sent.Avg == 0 || result.Total.RPC.Errors > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// takePart takes part in tests of LNet selftest until a message of endSize arrives.
func takePart(ctx context.Context, r *rank) error {
	agent, err := selftest.Enable(r.Node(), selftest.Config{})
	if err != nil {
		return err
	}
	return errors.Join(untilEnd(ctx, r.inbox), agent.Close(ctx))
}

// idleRank waits until a message of endSize arrives.
func idleRank(ctx context.Context, r *rank) error { return untilEnd(ctx, r.inbox) }
