//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// Unknown callers that take all file descriptors they can get do not keep lnetdctl out.
//
// decisions 134
func TestStrangersLeaveDescriptors(t *testing.T) {
	dir := t.TempDir()
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	const limit, strangers = 64, 200
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte("net: [{net type: tcp, nid: 127.0.0.1@tcp}]\nlnetd: {accept: all}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "a.sock")
	a := daemontest.Run(t, daemontest.Launch{
		Name: "a", Programs: dir, Socket: socket,
		Command: []string{"sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s/lnetd --port %d --control-socket %s --config %s", limit, dir, port, socket, file)},
	})
	// The control socket and its clients use descriptors of the reserve.
	const reserve, ofControl = limit / 4, 4
	pid := strconv.Itoa(a.PID())
	most := 0
	for k := range strangers {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+k))}}
		c, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if k%20 == 19 && !strings.Contains(a.Must(t, "net", "show"), "127.0.0.1@tcp") {
			t.Error("lnetdctl has no answer")
		}
		open, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(open))
	}
	if most > limit-reserve+ofControl {
		t.Errorf("%d of %d descriptors are in use, want %d at most", most, limit, limit-reserve+ofControl)
	}
	a.Stop(t)
}
