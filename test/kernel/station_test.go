package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// station is lnetd in a separate machine, where it has RDMA devices. The kernel's LNet is not
// loaded there.
type station struct {
	daemon
	box virtualMachine
}

// Paths in a station.
const (
	home    = "/root/"
	control = "/run/control.sock"
)

// station boots a machine and runs lnetd there. lnetd is a router if forwards is set and the
// machine is on both networks.
func (l *lab) station(t *testing.T, networks []int, forwards bool, routes ...route) *station {
	t.Helper()
	s := &station{box: l.virtualMachine("l", networks)}
	s.daemon = daemon{s.box.member, s.remote}
	s.box.boot(t)
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "lnetd.yaml")
	if err := os.WriteFile(config, []byte(s.configuration(control, forwards, routes)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{config, filepath.Join(dir, "lnetd"), filepath.Join(dir, "lnetdctl")} {
		l.must(t, "put", s.box.name, file, home+filepath.Base(file), "755")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := l.command(context.Background(), "run", s.box.name, "cat "+home+"log").CombinedOutput()
			t.Logf("lnetd in %s:\n%s", s.box.name, out)
		}
	})
	s.start(t)
	return s
}

// start runs lnetd, and waits until it answers.
func (s *station) start(t *testing.T) {
	t.Helper()
	s.box.must(t, "cd "+home+" && { setsid ./lnetd --config lnetd.yaml >>log 2>&1 </dev/null & echo $! >pid; }")
	var nids []string
	for _, network := range s.networks {
		nids = append(nids, s.nid(network))
	}
	s.within(t, []string{"net", "show"}, nids...)
}

// kill ends lnetd like a crash. It may be started again.
func (s *station) kill(t *testing.T) {
	t.Helper()
	s.box.must(t, "kill -9 $(cat "+home+"pid)")
}

// stop ends lnetd as an administrator does, and checks that it ends.
func (s *station) stop(t *testing.T) {
	t.Helper()
	s.box.must(t, "kill $(cat "+home+"pid)")
	daemontest.Within(t, patience, s.box.name+": lnetd ends", func() error {
		if out, status := s.box.try(t, "! kill -0 $(cat "+home+"pid)"); status != 0 {
			return fmt.Errorf("it runs still: %s", out)
		}
		return nil
	})
}

// remote runs lnetdctl there.
func (s *station) remote(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return s.box.try(t, home+"lnetdctl --control-socket "+control+" '"+strings.Join(args, "' '")+"'")
}
