package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/cmd/internal/cli/clitest"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

var update = flag.Bool("update", false, "write docs/man anew")

// docs/man has lnetd(8), which equals the output of --help, and lnet.conf(5), which equals the
// reference configuration.
func TestManualPages(t *testing.T) {
	for name, want := range map[string][]byte{"lnetd.8": lnetd8(t), "lnet.conf.5": lnetConf5()} {
		clitest.Manual(t, name, want, *update)
	}
}

func lnetd8(t *testing.T) []byte {
	t.Helper()
	var help, errs strings.Builder
	if status := run([]string{"--help"}, &help, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	m := cli.NewManual("lnetd", 8)
	m.Help(help.String(), m.Section, "SYNOPSIS")
	m.Section("SEE ALSO")
	m.Text("lnetdctl(8), lst(8), lnet.conf(5)")
	return m.Bytes()
}

func lnetConf5() []byte {
	m := cli.NewManual("lnet.conf", 5)
	m.Section("NAME")
	m.Text("lnet.conf - configuration of lnetd")
	m.Section("SYNOPSIS")
	m.Text("/etc/lnet.conf")
	m.Section("DESCRIPTION")
	m.Text(`lnetd reads the file that its option --config names, when it starts and on SIGHUP;
lnetdctl(8) import, apply, plan and diff read one in the same form, and lnetdctl export writes one. It is YAML
as Lustre's lnetctl(8) prints and reads it, plus the section "lnetd".

Below stands every key with its default, as lnetd --print-reference-config prints it. A line that begins with #: is
an example.`)
	m.Section("KEYS")
	m.Literal(string(config.Reference(daemon.AllDrivers().Options())))
	m.Section("SEE ALSO")
	m.Text("lnetd(8), lnetdctl(8)")
	return m.Bytes()
}
