package daemon

import (
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Dry runs and queries with a document read the loaded configuration and the drivers' options while a
// reload replaces them. The race detector reports it if they do so without synchronization.
func TestDryRunsWhileReloading(t *testing.T) {
	r := startNode(t, parse(t, "lnetd: {networks: 'tcp(eth0)'}\n")).ready(t)
	dry := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: "global: {numa_range: 3}\n"}, Mode: api.ModeReplace, Dry: true}
	var ended sync.WaitGroup
	ended.Go(func() {
		for range 30 {
			if _, err := r.ChangeConfiguration(t.Context(), dry); err != nil {
				t.Error(err)
			}
			if _, _, err := r.Described(t.Context(), api.Document{Name: "d.yaml", Text: "net: [{net type: tcp}]\n"}); err != nil {
				t.Error(err)
			}
			r.Waiting()
		}
	})
	for range 15 {
		for _, text := range []string{"lnetd: {networks: 'tcp(eth1)'}\n", "lnetd: {networks: 'tcp(eth0)'}\n"} {
			if err := r.reload(t, parse(t, text)); err != nil {
				t.Error(err)
			}
		}
	}
	ended.Wait()
}
