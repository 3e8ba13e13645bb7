package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// A misspelled command, option or net type is answered with what was probably meant, as advice and as JSON.
func TestDidYouMean(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	for line, want := range map[string]string{
		"pign":                         "did you mean 'lnetdctl ping'?",
		"net shwo":                     "did you mean 'lnetdctl net show'?",
		"show_session":                 "did you mean 'lnetdctl lst show_session'?",
		"lst new_sesion":               "did you mean 'lnetdctl lst new_session'?",
		"help pign":                    "did you mean 'lnetdctl ping'?",
		"net show --verbsoe":           "did you mean '--verbose'?",
		"ping --tiemout=3 1.2.3.4@tcp": "did you mean '--timeout'?",
		"ping 10.0.0.1@tpc":            "did you mean 'tcp'?",
		"ping server@tpc":              "did you mean 'tcp'?",
		"net show --net o2id":          "did you mean 'o2ib'?",
		"net add --net tpc --if eth0":  "did you mean 'tcp'?",
		"route add --net o2bi1 --gateway 10.0.0.1@tcp": "did you mean 'o2ib'?",
		"peer add --prim_nid 10.0.0.1@tpc":             "did you mean 'tcp'?",
		"discover 10.0.0.1@tpc":                        "did you mean 'tcp'?",
		"doctor 10.0.0.1@tpc":                          "did you mean 'tcp'?",
		"explain 10.0.0.1@tpc":                         "did you mean 'tcp'?",
	} {
		args := append(words(line), "--control-socket", path)
		if got := runProgram(program{hints: true}, args...); got.status == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
		if got := runProgram(program{}, append(args, "--json")...); !strings.Contains(got.stderr, strings.ReplaceAll(want, "'", `'`)) {
			t.Errorf("%s as JSON: %+v", line, got)
		}
	}
	for _, line := range []string{"frobnicate", "net show --frob", "ping 10.0.0.1@ethernet", "show", "net frob"} {
		if got := runProgram(program{hints: true}, append(words(line), "--control-socket", path)...); got.status == exitOK || strings.Contains(got.stderr, "did you mean") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// Each error has a remedy: its own, or that of its code. It is printed as advice, and is part of the JSON.
func TestEveryErrorHasARemedy(t *testing.T) {
	n := newCannedNode()
	n.PingFunc = func(context.Context, lnet.ProcessID, lnet.NID) (api.PingResult, error) {
		return api.PingResult{}, &api.Fault{Code: api.CodePingFailed, Errno: -5, Text: "failed"}
	}
	n.Refuse = func(string) error { return &api.Fault{Code: api.CodePeerRefused, Errno: -22, Text: "refused"} }
	path := serve(t, n)
	for line, want := range map[string]string{
		"peer add --prim_nid 10.0.0.1@tcp": `"lnetdctl peer show -v 3" shows`,
		"net show extra":                   `"lnetdctl net show --help" explains the command`,
		"client drop 7":                    "",
	} {
		args := append(words(line), "--control-socket", path)
		got := runProgram(program{hints: true}, args...)
		if got.status == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
		if got := runProgram(program{}, append(args, "--json")...); !strings.Contains(got.stderr, `"remedy": "`) {
			t.Errorf("%s as JSON: %+v", line, got)
		}
	}
	got := runProgram(program{hints: true}, "ping", "7-10.0.0.1@tcp", "10.0.0.2@tcp", "--control-socket", path)
	if !strings.HasSuffix(got.stderr, "# to find out why, use: lnetdctl doctor 10.0.0.1@tcp\n") || strings.Count(got.stderr, "doctor") != 1 {
		t.Errorf("%+v", got)
	}
	got = runProgram(program{}, "ping", "10.0.0.1@tcp", "--json", "--control-socket", path)
	if !strings.Contains(got.stdout, `"remedy": "\"lnetdctl doctor NID\" finds out why`) {
		t.Errorf("%+v", got)
	}
}

// The commands that remedies name exist.
func TestCommandsInRemedies(t *testing.T) {
	text, err := os.ReadFile("../../internal/lnetd/control/api/remedy.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"lnetdctl ([^"]*)"`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 30 {
		t.Errorf("%d commands only", len(found))
	}
	for _, f := range found {
		line := strings.NewReplacer("lst COMMAND", "lst stop", "COMMAND", "net").Replace(f[1])
		l, err := readLine((&program{name: "lnetdctl"}).root(), words(line), false)
		if err != nil || !l.cmd.Runnable() && l.word == "" {
			t.Errorf("%s: %v", f[0], err)
		}
	}
}

// The errors of commands that print them in other forms have remedies too.
func TestRemediesOfOtherForms(t *testing.T) {
	t.Setenv("LST_SESSION", "1")
	path := serve(t, newCannedNode())
	for line, want := range map[string]string{
		"fault drop add -s * -d *": `# "lnetdctl help udsp add"`,
		"lst stop":                 "enable it with: lnetdctl lst enable",
		"legacy2yaml --frob /none": "unrecognized option",
		"lst show_session":         "enable it with: lnetdctl lst enable",
	} {
		if got := runProgram(program{hints: true}, append(words(line), "--control-socket", path)...); got.status == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	t.Setenv("LST_SESSION", "")
	if got := runProgram(program{hints: true}, "lst", "stop", "--control-socket", path); !strings.Contains(got.stderr, "\n# set LST_SESSION as when") {
		t.Errorf("%+v", got)
	}
}
