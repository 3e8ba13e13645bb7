package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// enter runs a command with a Debian system as its root directory, whose path is $0. The command has the
// devices and the file systems of this machine.
const enter = `for at in dev proc sys run; do mount --rbind "/$at" "$0/$at" || exit; done; exec chroot "$0" "$@"`

// inside returns the command that runs args in the Debian system in which the packages lnetd and lnetd-o2ib
// were installed. Without such a system it skips the test.
func inside(t *testing.T, args ...string) []string {
	t.Helper()
	root := os.Getenv("LNETD_TEST_INSTALLED")
	if root == "" {
		t.Skip("needs a Debian system with the packages lnetd and lnetd-o2ib: LNETD_TEST_INSTALLED=DIRECTORY")
	}
	return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", enter, root}, args...)
}

// Given a fresh Debian with the packages lnetd and lnetd-o2ib and a device of soft-RoCE, when lnetd runs there
// with an NI on the device, then the installed driver uses it, and another node answers a ping.
func TestInstalledOnDevices(t *testing.T) {
	at := addresses(t, 2)
	run := func(net string) *daemontest.Process {
		socket := filepath.Join(testenv.SocketDir(t), "control.sock")
		return daemontest.Run(t, daemontest.Launch{
			Name: net, Socket: socket, Command: inside(t, "lnetd", "--net", net, "--control-socket", socket),
		})
	}
	a, b := run("o2ib(eth0)"), run(at[1]+"@o2ib")
	command := inside(t, "lnetdctl", "--control-socket", a.Socket, "ping", "--timeout", "60", at[1]+"@o2ib")
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "primary nid: "+at[1]+"@o2ib\n") {
		t.Errorf("ping: %v\n%s", err, out)
	}
	a.Stop(t)
	b.Stop(t)
}
