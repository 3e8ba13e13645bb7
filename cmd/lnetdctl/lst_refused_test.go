package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// Each error number of a console has a text.
//
// selftest 8 (1)
func TestLstRefusals(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ESRCH:     "No session exists\n",
		syscall.ESHUTDOWN: "Session is shutting down\n",
		syscall.EACCES:    "Unmatched session key or not root\n",
		syscall.ENOENT:    "Can't find group in current session\n",
		syscall.EINVAL:    "Invalid parameters list in command line\n",
		syscall.EFAULT:    "Bad parameter address\n",
		syscall.EEXIST:    "group already exists\n",
		syscall.EBUSY:     "Failed to delete group: Device or resource busy\n",
	} {
		var out, errs strings.Builder
		p := program{name: lstName, stdout: &out, stderr: &errs}
		err := p.lstRefused(lstWords{what: "group", failed: "Failed to delete group"},
			&api.Fault{Code: api.CodeLstRefused, Errno: -int(errno), Text: "refused"})
		if err != error(status(exitFailure)) || errs.String() != want || out.Len() > 0 {
			t.Errorf("%v: %v, %q, want %q", errno, err, errs.String(), want)
		}
	}
}

// If features are disabled because of an old node, that is reported.
//
// selftest 7.4 (2)
func TestLstCompatibleMode(t *testing.T) {
	var out, errs strings.Builder
	p := program{name: lstName, stdout: &out, stderr: &errs}
	if !p.lstShowAdded("g", &report.GroupAddition{Compatible: true}) || out.Len() > 0 ||
		errs.String() != "Session is in compatible mode: some nodes have fewer features\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

// If the nodes of a group have just changed, the group has no figures.
//
// selftest 9 (4)
func TestLstStatOfAGroupThatChanges(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	for _, line := range []string{"new_session s", "add_group g 10.77.0.[11-12]@tcp"} {
		if out, status := n.lst("peerA", strings.Fields(line)...); status != 0 {
			t.Fatalf("%s: %s", line, out)
		}
	}
	var out, errs strings.Builder
	p := program{name: lstName, stdout: &out, stderr: &errs, socket: n.sockets["peerA"], pause: func(context.Context, time.Duration) error {
		if text, status := n.lst("peerA", "update_group", "--remove", "10.77.0.12@tcp", "g"); status != 0 {
			t.Error(text)
		}
		return nil
	}}
	if status := p.run([]string{"stat", "g"}); status != exitFailure || out.Len() > 0 || errs.String() != "Group is changed, re-run stat\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}
