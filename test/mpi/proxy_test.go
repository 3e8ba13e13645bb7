//go:build mpi && cgo

package mpi

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Two lnetd are routers between the nets tcp and mpi. An application of four ranks has a proxy of each. Every rank
// pings both lnetd, and pings and sends PUTs to a node that is only on tcp. Both lnetd and the node ping every rank, and
// the node sends PUTs to it. When the ranks have ended, the proxies end too, and both lnetd have none.
//
// MT-3, PT-4, MPI-8, MPI-11, MPI-12, MPI-13
func TestProxy(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		s := newSite(t, 2)
		s.talk(l.start(t, fmt.Sprint(talkers), s.order("talk"), s.proxies()...))
	})
}

// talkers is the number of ranks that talk.
const talkers = 4

// talk exchanges messages with the ranks of a job of talkers, and waits for its end.
func (s *site) talk(j *running) {
	t := s.t
	t.Helper()
	up := j.await("up", talkers)
	received := make(chan error, 1)
	go func() { received <- receiveAll(t.Context(), s.inbox, talkers) }()
	pid := fmt.Sprint(uint32(up[0].PID))
	for k := range s.lnetd {
		s.awaitOutput(k, true, pid, "clients")
		for _, r := range up {
			id := r.id(t)
			s.lnetd[k].Must(t, "ping", fmt.Sprintf("%d-%s", uint32(id.PID), id.NID), "--timeout", "20")
		}
	}
	for _, r := range up {
		if _, err := s.node.Ping(t.Context(), r.id(t), node.PingOptions{}); err != nil {
			t.Errorf("ping of rank %d: %v\n%s", r.Rank, err, j.Output())
		}
		if err := putAll(t.Context(), s.node, r.id(t)); err != nil {
			t.Errorf("rank %d: %v\n%s", r.Rank, err, j.Output())
		}
		if r.PID != up[0].PID || r.PID == lnet.PIDLustre {
			t.Errorf("rank %d has the PID %s, rank 0 has %s", r.Rank, r.PID, up[0].PID)
		}
	}
	if err := <-received; err != nil {
		t.Errorf("the node: %v", err)
	}
	if err := j.Wait(); err != nil {
		t.Errorf("%v\n%s", err, j.Output())
	}
	for k := range s.lnetd {
		s.awaitOutput(k, false, pid, "clients")
	}
}
