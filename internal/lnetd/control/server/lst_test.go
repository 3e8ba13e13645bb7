package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/report"
)

// lstCommands has the commands of lst, each with a valid body.
var lstCommands = map[string]string{
	"new_session":  `{"key":1,"name":"s"}`,
	"end_session":  `{"key":1}`,
	"show_session": `{}`,
	"hold_session": `{"key":1}`,
	"ping":         `{"key":1,"target":{"session":true}}`,
	"add_group":    `{"key":1,"name":"g","ids":["10.0.0.1@tcp"]}`,
	"del_group":    `{"key":1,"name":"g"}`,
	"update_group": `{"key":1,"name":"g","clean":["Busy","Down"]}`,
	"list_groups":  `{"key":1}`,
	"list_group":   `{"key":1,"name":"g"}`,
	"add_batch":    `{"key":1,"name":"b"}`,
	"add_test":     `{"key":1,"batch":"b","from":"g","to":"g","kind":"ping","loop":1,"concurrency":1,"distribute":1,"span":1}`,
	"run":          `{"key":1,"batch":"b"}`,
	"stop":         `{"key":1,"batch":"b"}`,
	"query":        `{"key":1,"batch":"b"}`,
	"list_batches": `{"key":1}`,
	"list_batch":   `{"key":1,"name":"b"}`,
	"stat":         `{"key":1,"targets":["g"]}`,
	"disable":      `{}`,
}

// TestLstDisabled checks that a node without selftest refuses all commands, and names the command
// that enables it.
func TestLstDisabled(t *testing.T) {
	_, path := serve(t, &controltest.Daemon{})
	for command, body := range lstCommands {
		status, answer := raw(t, path, "POST", "/v1/lst/"+command, body)
		if status != 409 || !strings.Contains(answer, `"code":"lst-disabled","errno":-19`) ||
			!strings.Contains(answer, "lnetdctl lst enable") {
			t.Errorf("%s: status %d: %s", command, status, answer)
		}
	}
	if status, answer := raw(t, path, "GET", "/v1/lst", ""); status != 200 || !strings.Contains(answer, `"enabled":false`) {
		t.Errorf("status %d: %s", status, answer)
	}
}

func TestLstMalformed(t *testing.T) {
	_, path := serve(t, &controltest.Daemon{})
	bodies := []struct{ command, body string }{
		{"update_group", `{"key":1,"name":"g"}`},
		{"update_group", `{"key":1,"name":"g","refresh":true,"clean":["Busy"]}`},
		{"update_group", `{"key":1,"name":"g","clean":["Odd"]}`},
		{"stat", `{"key":1}`},
		{"new_session", `{"key":1,"name":"s","timeout":-1}`},
		{"new_session", `{"key":1,"name":"s","timeout":2147483648}`},
		{"run", `{"key":1,"batch":"b","timeout":-1}`},
		{"run", `{"key":1,"batch":"b","timeout":10000000000}`},
		{"new_session", `{"key":"x","name":"s"}`},
		{"enable", `{"memory":1}`},
		{"enable", `{"memory":-1}`},
		{"enable", `{"session_timeout":-1}`},
		{"enable", `{"session_timeout":86401}`},
		{"enable", `{"units":-1}`},
		{"enable", `{"units":16777217}`},
	}
	for command := range lstCommands {
		for _, body := range []string{"", "{", "[]", `{"frob":1}`} {
			bodies = append(bodies, struct{ command, body string }{command, body})
		}
	}
	for _, b := range bodies {
		status, answer := raw(t, path, "POST", "/v1/lst/"+b.command, b.body)
		if status != 400 || !strings.Contains(answer, `"code":"request-invalid"`) {
			t.Errorf("%s %s: status %d: %s", b.command, b.body, status, answer)
		}
	}
}

// TestLstFaults checks that faults keep the errno, name and reason of the console's errors.
func TestLstFaults(t *testing.T) {
	tests := []struct {
		err  error
		code api.Code
		text string
	}{
		{syscall.ESRCH, api.CodeLstNoSession, "disable: No such process"},
		{&console.Error{Errno: syscall.EACCES, What: "session"}, api.CodeLstKey, "disable: Permission denied"},
		{&console.Error{Errno: syscall.ENOENT, What: "group", Name: "g"}, api.CodeLstUnknown, "disable: group g: No such file or directory"},
		{&console.Error{Errno: syscall.EEXIST, What: "batch", Name: "b"}, api.CodeLstExists, "disable: batch b: File exists"},
		{&console.Error{Errno: syscall.EINVAL, What: "test", Name: "brw", Reason: "size 12"}, api.CodeLstInvalid, "disable: test brw: Invalid argument"},
		{&console.Error{Errno: syscall.ENETDOWN, What: "group", Name: "g"}, api.CodeLstNotActive, "disable: group g: Network is down"},
		{syscall.EIO, api.CodeLstRefused, "disable: Input/output error"},
	}
	for _, tt := range tests {
		c, _ := serve(t, &controltest.Daemon{Lst: refusing{tt.err}})
		err := c.LstDisable(t.Context(), api.LstDisable{})
		var f *api.Fault
		if !errors.As(err, &f) || f.Code != tt.code || f.Text != tt.text {
			t.Errorf("%v: %+v", tt.err, err)
			continue
		}
		if e := (*console.Error)(nil); errors.As(tt.err, &e) && (f.Subject != e.Name || f.Cause != e.Reason) {
			t.Errorf("%v: %+v", tt.err, f)
		}
	}
}

// TestLstConsolesOfOddNIDs checks that lnetdctl can read any NID of a console that messages may
// contain.
func TestLstConsolesOfOddNIDs(t *testing.T) {
	for _, n := range []message.NID4{0, 0x0001000000000007, message.AnyNID4 - 1, 0x000200000a000001} {
		c, _ := serve(t, &controltest.Daemon{Lst: inSessionOf{console: n}})
		s, err := c.LstStatus(t.Context())
		if err != nil || s.Session == nil || s.Session.Console != n.String() {
			t.Errorf("%v: %+v, %v", n, s, err)
		}
		want := report.NodeResult{Session: &report.SessionRef{NID: n, Stamp: 1}, ID: lnet.ProcessID{NID: nid("10.0.0.1@tcp"), PID: 12345}, State: report.Busy}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got report.NodeResult
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%v: %v", n, err)
		} else if diff := cmp.Diff(want, got, sameNID); diff != "" {
			t.Error(diff)
		}
	}
}

// inSessionOf is a selftest in the session of a console.
type inSessionOf struct {
	refusing
	console message.NID4
}

func (s inSessionOf) Status() api.LstStatus {
	return api.LstStatus{Enabled: true, Session: &api.LstAgentSession{Name: "s", Console: s.console.String(), Tests: []api.LstAgentTest{}}}
}

// refusing is a selftest that returns an error for Disable.
type refusing struct{ err error }

func (r refusing) Status() api.LstStatus               { return api.LstStatus{} }
func (r refusing) Enable(api.LstBounds) error          { return nil }
func (r refusing) Disable(context.Context, bool) error { return r.err }
func (r refusing) Console() (*console.Console, error)  { return nil, r.err }
