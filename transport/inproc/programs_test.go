package inproc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/transport/coretest"
)

// TestRandomPrograms compares random programs with a model of TMs and pools.
func TestRandomPrograms(t *testing.T) {
	lan := simlnd.Config{Seed: 1, Link: simlnd.Link{Latency: 50 * time.Microsecond, Jitter: 20 * time.Microsecond, Bandwidth: 1 << 30}}
	coretest.RandomPrograms(t, coretest.Harness{Bubble: synctest.Test, New: func(t *testing.T, n int) *coretest.Network {
		world := &coretest.Network{}
		for _, n := range inMemory(lan)(t, n) {
			nis := n.NIs()
			world.Hosts = append(world.Hosts, coretest.Host{Core: New(n), NID: nis[len(nis)-1].NID})
		}
		return world
	}})
}
