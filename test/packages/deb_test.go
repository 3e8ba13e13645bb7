package packages

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

const configuration = "/etc/lnetd/lnetd.yaml"

// Given a machine, when the package is installed, then there are working programs, a valid
// configuration, pages, units that are not enabled, and the user. When it is removed, the
// configuration stays. When it is purged, nothing is left, and the users are the same as before.
func TestInstallAndPurge(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.traces(t)
	m.install(t, deb(t))

	if got, want := m.run(t, "lnetd", "--version"), "lnetd v"+newVersion+"\n"; got != want {
		t.Errorf("lnetd --version: %q, want %q", got, want)
	}
	if got, want := m.run(t, "lnetdctl", "version"), "v"+newVersion; !strings.Contains(got, want) {
		t.Errorf("lnetdctl version: %q, want %q", got, want)
	}
	m.run(t, "lnetperf", "--help")
	if got, want := m.run(t, "lnetd", "--check", "--config", configuration), "the configuration has no errors\n"; got != want {
		t.Errorf("lnetd --check: %q, want %q", got, want)
	}
	user := strings.Split(strings.TrimSpace(m.run(t, "getent", "passwd", "lnetd")), ":")
	if len(user) != 7 || !strings.HasSuffix(user[6], "/nologin") {
		t.Errorf("the user is %q", user)
	}
	m.run(t, "getent", "group", "lnetd")
	m.wantFiles(t, "/usr/lib/systemd/system/lnetd.service", "/usr/lib/systemd/system/lnetd@.service",
		"/usr/lib/systemd/system/lnetd-control.socket", "/usr/lib/systemd/system/lnetd-clients.socket",
		"/usr/lib/systemd/system/lnetd-metrics.socket", "!/etc/systemd/system/multi-user.target.wants/lnetd.service",
		"/usr/share/man/man8/lnetd.8.gz", "/usr/share/man/man8/lnetperf.8.gz", "/usr/share/man/man5/lnet.conf.5.gz",
		"/usr/share/man/man8/lst.8lnetd.gz", "/usr/share/bash-completion/completions/lnetdctl",
		"/usr/share/doc/lnetd/third-party-licenses.gz", "/usr/share/lnetd/sbom/lnetd.cdx.json",
		"/usr/share/lnetd/prometheus/lnetd.alerts.yaml", "/usr/share/lnetd/prometheus/lnetd.rules.yaml", "!/usr/share/lnetd/prometheus/tests",
		"/usr/share/lnetd/grafana/lnetd.json", "/usr/share/lnetd/grafana/peers.json", "/usr/share/lnetd/kubernetes/daemonset.yaml",
		"/usr/share/lnetd/kubernetes/kustomization.yaml", "/usr/share/doc/lnetd/docs/status-page/idle.png", "/usr/share/lnetd/wireshark/lnet.lua",
		"/usr/share/doc/lnetd/docs/monitoring.md.gz",
		"/usr/share/doc/lnetd/docs/alerts/LnetNIDown.md.gz", "/usr/share/doc/lnetd/docs/conformance.md.gz", "/run/lnetd")
	if out := m.run(t, "dpkg", "--verify", "lnetd"); out != "" {
		t.Errorf("dpkg --verify:\n%s", out)
	}

	m.run(t, "systemctl", "enable", "lnetd.service", "lnetd@blue.service")
	m.wantFiles(t, "/etc/systemd/system/multi-user.target.wants/lnetd.service", "/etc/systemd/system/multi-user.target.wants/lnetd@blue.service")
	m.run(t, "dpkg", "--remove", "lnetd")
	m.wantFiles(t, configuration, "!/usr/bin/lnetd", "!/usr/lib/systemd/system/lnetd.service")
	m.run(t, "dpkg", "--purge", "lnetd")
	if diff := cmp.Diff(before, m.traces(t)); diff != "" {
		t.Errorf("purge left behind (+) or took away (-):\n%s", diff)
	}
}

// Given a machine with the older version, whose configuration was changed by the administrator, and
// whose service is enabled, when it is upgraded, then the configuration stays and the service stays
// enabled. Files that the administrator has added are still there after a purge.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(t, older(t, debName(oldVersion)))
	if got, want := m.run(t, "lnetd", "--version"), "lnetd v1.0.0-rc.1\n"; got != want {
		t.Fatalf("lnetd --version: %q, want %q", got, want)
	}
	const changed, instance = "net:\n    - net type: tcp7\n", "/etc/lnetd/blue.yaml"
	m.Write(t, configuration, changed)
	m.Write(t, instance, changed)
	m.run(t, "systemctl", "enable", "lnetd.service")
	uid := m.run(t, "id", "-u", "lnetd")

	m.install(t, deb(t))
	if got, want := m.run(t, "lnetd", "--version"), "lnetd v"+newVersion+"\n"; got != want {
		t.Errorf("lnetd --version: %q, want %q", got, want)
	}
	if got := m.read(t, configuration); got != changed {
		t.Errorf("the configuration is now\n%s", got)
	}
	if got := m.run(t, "id", "-u", "lnetd"); got != uid {
		t.Errorf("lnetd's user was %s and is %s", uid, got)
	}
	if got := m.run(t, "systemctl", "is-enabled", "lnetd.service"); got != "enabled\n" {
		t.Errorf("after the upgrade the service is %s", got)
	}
	if got := m.run(t, "dpkg", "--compare-versions", newVersion+"-1", "gt", oldVersion+"-1"); got != "" {
		t.Error(got)
	}

	m.run(t, "dpkg", "--remove", "lnetd")
	if got := m.read(t, configuration); got != changed {
		t.Errorf("after removal the configuration is\n%s", got)
	}
	m.install(t, deb(t))
	if got := m.read(t, configuration); got != changed {
		t.Errorf("after another installation the configuration is\n%s", got)
	}
	m.run(t, "dpkg", "--purge", "lnetd")
	m.wantFiles(t, "!"+configuration, instance)
}

// Given the packages for both machines, when lintian checks them, then each of its findings is
// explained, and each explanation has a finding.
func TestLintian(t *testing.T) {
	t.Parallel()
	needMachine(t)
	testenv.NeedCommand(t, "lintian", "lintian")
	debs, err := filepath.Glob(filepath.Join(built(t), "*.deb"))
	if err != nil || len(debs) != 5 {
		t.Fatalf("%q, %v", debs, err)
	}
	out, err := exec.Command("lintian", append([]string{"--no-cfg", "--allow-root", "--tag-display-limit", "0", "--info", "--fail-on", "error,warning"}, debs...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}
