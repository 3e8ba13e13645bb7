package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
)

// host is lnetd in a separate namespace, with a cable to each of its networks.
type host struct {
	daemon
	*daemontest.Process
}

// host runs lnetd, as a router if it is on both networks and forwards.
func (l *lab) host(t *testing.T, networks []int, forwards bool, routes ...route) *host {
	t.Helper()
	m := l.member(networks)
	name := fmt.Sprintf("%s-%d", l.name, m.number)
	namespace.New(t, name)
	for _, network := range networks {
		namespace.Cable(t, name, fmt.Sprintf("eth%d", network), address(network, m.number)+"/24",
			l.name, m.port(network), fmt.Sprintf("br%d", network))
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "control.sock")
	config := filepath.Join(t.TempDir(), "lnetd.yaml")
	if err := os.WriteFile(config, []byte(m.configuration(socket, forwards, routes)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := daemontest.Run(t, daemontest.Launch{
		Name: m.primary(), Namespace: name, Programs: dir, Socket: socket,
		Command: []string{filepath.Join(dir, "lnetd"), "--config", config},
	})
	return &host{daemon{m, p.Ctl}, p}
}
