package packages

import (
	"os"
	"strings"
	"testing"
)

// Given a booted machine on which the service of the older version runs, and one on which it was
// never started, when the package is upgraded, then the service of the new version runs on the
// first one, and not on the second one. When the package is removed, nothing runs. After a purge
// the units, links and sockets are gone.
func TestUpgradeWhileItRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(t, older(t, debName(oldVersion)))
	b, err := os.ReadFile(deb(t))
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, "/root/new.deb", string(b))
	m.Boot(t)

	m.Must(t, "dpkg --install /root/new.deb")
	if got := m.state(t); got != "inactive" {
		t.Errorf("the upgrade of what did not run has made it %s", got)
	}
	m.Must(t, "dpkg --remove lnetd")
	m.install(t, older(t, debName(oldVersion)))
	m.Must(t, "systemctl daemon-reload && systemctl enable --quiet --now lnetd-control.socket && systemctl enable --quiet --now lnetd.service")
	if got := m.Must(t, "lnetd --version && lnetdctl net show | grep -c @tcp"); got != "lnetd v1.0.0-rc.1\n1\n" {
		t.Errorf("the older version: %s", got)
	}
	before := m.Must(t, "systemctl show --property=MainPID --value lnetd.service")

	m.Must(t, "dpkg --install /root/new.deb")
	if got := m.state(t); got != "active" {
		t.Errorf("after the upgrade it is %s", got)
	}
	after := m.Must(t, "systemctl show --property=MainPID --value lnetd.service")
	if after == before || after == "0\n" {
		t.Errorf("the process was %s and is %s", before, after)
	}
	if got := m.Must(t, "lnetd --version && readlink /proc/$(systemctl show --property=MainPID --value lnetd.service)/exe && lnetdctl net show | grep -c @tcp"); got != "lnetd v"+newVersion+"\n/usr/bin/lnetd\n1\n" {
		t.Errorf("after the upgrade: %s", got)
	}
	if got := m.Must(t, "systemctl is-enabled lnetd.service lnetd-control.socket"); got != "enabled\nenabled\n" {
		t.Errorf("after the upgrade units are %s", got)
	}

	m.Must(t, "dpkg --remove lnetd")
	if got := m.Must(t, "ls -l /proc/[0-9]*/exe 2>/dev/null | grep /usr/bin/lnetd; systemctl list-units --all --plain --no-legend 'lnetd*' | grep -c ' active ' || true"); got != "0\n" {
		t.Errorf("after the removal there runs, and of units are active:\n%s", got)
	}
	m.Must(t, "dpkg --purge lnetd")
	if got := m.Must(t, "find /etc/systemd /run/lnetd /etc/lnetd -name '*lnetd*' 2>/dev/null; getent passwd lnetd; getent group lnetd; systemctl list-units --failed --plain --no-legend 'lnetd*'"); got != "" {
		t.Errorf("after the purge there is\n%s", got)
	}
}

// state returns the state of the service.
func (m *machine) state(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(m.Must(t, "systemctl show --property=ActiveState --value lnetd.service"))
}
