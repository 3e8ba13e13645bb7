package mem_test

import (
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/transport/coretest"
	"github.com/lnetd/lnetd/transport/mem"
)

// TestRandomPrograms compares random programs with a model of TMs and pools.
func TestRandomPrograms(t *testing.T) {
	for name, network := range map[string]func(t *testing.T, n int) *coretest.Network{
		"Hosts": hosts(mem.Config{}), "Loopback": loopbackHost,
	} {
		t.Run(name, func(t *testing.T) {
			coretest.RandomPrograms(t, coretest.Harness{New: network, Bubble: synctest.Test})
		})
	}
}
