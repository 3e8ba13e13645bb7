package main

import (
	"bufio"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// TestLastEvents: given a program that follows the events of lnetd, when a signal ends lnetd, then the program gets the
// events that say so before the stream ends.
func TestLastEvents(t *testing.T) {
	socket := filepath.Join(testenv.SocketDir(t), "c.sock")
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"lnetd", "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", socket}, nil, `"msg":"ready"`)
	c := client.New(socket)
	defer c.Close()
	s, err := c.Events(t.Context(), api.EventFilter{Kinds: []string{api.EventLnetd}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var last []string
	lines := bufio.NewScanner(s)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.Contains(line, `"text":"ready"`):
			p.Signal(syscall.SIGTERM)
			last = nil
		case strings.Contains(line, `"text":"received a signal"`), strings.Contains(line, `"text":"stopping"`):
			last = append(last, line)
		}
	}
	if len(last) != 2 {
		t.Errorf("the last events are %q, and then %v", last, lines.Err())
	}
}
