package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// With --json lst prints JSON documents, in which lists without members are empty lists.
func TestLstJSON(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	for _, line := range []string{
		"new_session s", "show_session", "list_group", "list_group nosuch", "ping --session", "add_group g 10.77.0.11@tcp x@", "list_group g",
		"add_group both 10.77.0.[11-12]@tcp", "update_group --clean down both", "ping --group both", "list_batch", "add_batch b",
		"list_batch b", "add_test --batch b --from g --to both brw", "list_batch b", "list_batch --test 1 b", "query b", "run b",
		"stat --count 2 g both", "query --loop 2 b", "show_error g both", "stop b", "add_group more 10.77.0.12@tcp", "del_group more",
		"status", "end_session", "status",
		"quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --size 4K --time 1s",
	} {
		var out, errs bytes.Buffer
		p := program{name: lstName, stdout: &out, stderr: &errs, socket: n.sockets["peerA"], pause: noPause}
		if strings.HasPrefix(line, "quick") {
			p.pause = nil
		}
		if status := p.run(append([]string{"--json"}, strings.Fields(line)...)); status != 0 || errs.Len() > 0 || out.Len() == 0 {
			t.Fatalf("%s: status %d, stdout %q, stderr %q", line, status, out.String(), errs.String())
		}
		if bytes.Contains(out.Bytes(), []byte("null")) {
			t.Errorf("%s: %s", line, out.String())
		}
		for d := json.NewDecoder(&out); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
}

// Errors of nodes in a quick test are reported as JSON, too.
func TestLstQuickFailsAsJSON(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	for args, cause := range map[string]string{
		"--from 10.77.0.11@tcp --to 10.77.0.[12-13]@tcp": "12345-10.77.0.13@tcp did not join the session: Connection refused; ",
		"--from 10.77.0.11@tcp --to nobody@":             "Invalid --to nobody@: ",
	} {
		var out, errs bytes.Buffer
		p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: n.sockets["peerA"]}
		status := p.run(append([]string{"lst", "quick", "--json"}, strings.Fields(args)...))
		var refusal struct{ Error *api.Fault }
		if err := json.Unmarshal(errs.Bytes(), &refusal); err != nil || status != exitFailure || out.Len() > 0 {
			t.Fatalf("%s: status %d, stdout %q, stderr %q: %v", args, status, out.String(), errs.String(), err)
		}
		if f := refusal.Error; f.Code != api.CodeLstNotActive || !strings.HasPrefix(f.Cause, cause) {
			t.Errorf("%s: %+v", args, f)
		}
	}
}
