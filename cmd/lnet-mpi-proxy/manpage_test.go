package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/cmd/internal/cli/clitest"
)

var update = flag.Bool("update", false, "write docs/man anew")

// docs/man has lnet-mpi-proxy(1), which equals the output of --help, and has the tunables of the driver.
func TestManualPages(t *testing.T) {
	var text, errs strings.Builder
	if status := run([]string{"--help"}, &text, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	m := cli.NewManual("lnet-mpi-proxy", 1)
	m.Help(text.String(), m.Section, "SYNOPSIS", "EXAMPLES")
	m.Section("TUNABLES")
	m.Text("--set sets these tunables of the driver:\n\n" + tunables())
	m.Section("SEE ALSO")
	m.Text("lnetd(8), lnetdctl(8), lnet.conf(5), mpirun(1)")
	clitest.Manual(t, "lnet-mpi-proxy.1", m.Bytes(), *update)
}
