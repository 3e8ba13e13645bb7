package rdma

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// The ports of all nodes, over RDMA and TCP, and for metrics.
const (
	service = 18988
	port    = 18989
	metrics = 18990
)

// addresses are the addresses on RDMA devices.
func addresses(t testing.TB, n int) []string {
	t.Helper()
	list := strings.Fields(os.Getenv("LNETD_TEST_RDMA"))
	if len(list) < n {
		t.Skipf("needs %d addresses on RDMA devices: LNETD_TEST_RDMA='ADDRESS ADDRESS ...'", n)
	}
	return list
}

// daemon is an lnetd, with its arguments.
type daemon struct {
	*daemontest.Process
	nids   []string
	launch daemontest.Launch
}

// programDir is the directory of lnetd and the other programs.
func programDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LNETD_TEST_PROGRAMS")
	if dir == "" {
		t.Skip("needs lnetd, lnetdctl and lnetperf with the tag o2ib: LNETD_TEST_PROGRAMS=DIRECTORY")
	}
	return dir
}

// startProgram starts one of them with arguments. If it still runs at the end of the test, it is
// killed. Its output is in Stdout.
func startProgram(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(programDir(t), name), args...)
	c.Stdout = &daemontest.Log{}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// tryProgram runs one of them with arguments and returns its output.
func tryProgram(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	c := startProgram(t, name, args...)
	err := c.Wait()
	out := fmt.Sprint(c.Stdout)
	if err != nil {
		err = fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
	}
	return out, err
}

// start runs lnetd with NIDs, and an additional configuration, until the end of the test.
func start(t *testing.T, more string, nids ...string) *daemon {
	t.Helper()
	programs := programDir(t)
	dir := t.TempDir()
	text := more + "net:\n"
	for _, nid := range nids {
		text += fmt.Sprintf("    - net type: %s\n      local NI(s):\n        - nid: %s\n", nid[strings.IndexByte(nid, '@')+1:], nid)
	}
	text += fmt.Sprintf(`lnetd:
    port: %d
    o2iblnd: {service: %d}
    selftest: {enabled: true}
    alive_router_check_interval: 1
    router_ping_timeout: 5
    metrics_addr: %s:%d
`, port, service, nids[0][:strings.IndexByte(nids[0], '@')], metrics)
	file := filepath.Join(dir, "lnetd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &daemon{nids: nids, launch: daemontest.Launch{
		Name: nids[0], Programs: programs, Socket: filepath.Join(dir, "control.sock"),
	}}
	n.launch.Command = []string{filepath.Join(programs, "lnetd"), "--config", file, "--control-socket", n.launch.Socket}
	n.restart(t)
	return n
}

// hosting returns the socket for programs with transfer machines.
func (n *daemon) hosting() string { return filepath.Join(filepath.Dir(n.launch.Socket), "lnetd.sock") }

// restart starts the daemon if it does not run.
func (n *daemon) restart(t *testing.T) {
	t.Helper()
	n.Process = daemontest.Run(t, n.launch)
}

// saying returns an error unless a command has succeeded and its output contains the text.
func saying(out string, status int, of *daemon, words ...string) error {
	for _, word := range append(words, of.nids...) {
		if status != 0 || !strings.Contains(out, word) {
			return fmt.Errorf("status %d, without %q: %s", status, word, out)
		}
	}
	return nil
}
