package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	untilPatience = 3 * time.Minute
	untilInterval = 20 * time.Millisecond
)

// until runs a program repeatedly until its output matches a regular expression:
//
//	until REGEXP PROGRAM ARGS
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM [ARGS...]")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	give := time.NewTimer(untilPatience)
	defer give.Stop()
	again := time.NewTicker(untilInterval)
	defer again.Stop()
	var out bytes.Buffer
	for {
		out.Reset()
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Env = scriptEnv(ts)
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // only its output is used
		if want.Match(out.Bytes()) != neg {
			return
		}
		select {
		case <-again.C:
		case <-give.C:
			ts.Fatalf("%v says, in the end:\n%s", args[1:], out.Bytes())
		}
	}
}

// scriptEnv are the variables of a script's environment that our programs use.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LST_SESSION", "LNETD_CONTROL_SOCKET"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}
