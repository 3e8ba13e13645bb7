package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// wrongLine is an invalid command line.
type wrongLine struct {
	what string
	args []string
	// ignored is set if the command may succeed, with a warning: the invalid value counts as not
	// given, and -1 may be valid.
	ignored bool
	// number is set if the invalid value is a number, which only lnetd checks.
	number bool
}

// wrongLines returns invalid command lines of a command, derived from its options and its first
// example.
func wrongLines(c *cobra.Command) []wrongLine {
	path := strings.Fields(c.CommandPath())[1:]
	example := words(strings.Split(c.Example, "\n")[0])[1:]
	all := []wrongLine{
		{what: "an unknown option", args: append(slices.Clone(example), "--no-such-option")},
		{what: "an unknown letter", args: append(slices.Clone(example), "-Z")},
	}
	for _, nonsense := range []string{"\x01", "nonsense@", "-1", "99999999999999999999"} {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == wordHelp || f.Value.Type() == "bool" || f.NoOptDefVal != "" || strings.HasPrefix(f.Usage, "has no effect") {
				return
			}
			value, _ := pflag.UnquoteUsage(f)
			all = append(all, wrongLine{
				what: "nonsense as --" + f.Name, args: append(slices.Clone(example), "--"+f.Name+"="+nonsense), ignored: true,
				number: slices.Contains([]string{"N", "NUMBER", "SECONDS", "VALUE", "COUNT"}, value),
			})
		})
		if c.Name() != wordVersion {
			all = append(all, wrongLine{
				what: "nonsense as operand", args: append(slices.Clone(path), nonsense, nonsense), ignored: true,
			})
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == wordHelp:
		case f.Value.Type() == "bool":
			all = append(all, wrongLine{what: "a value for --" + f.Name, args: append(slices.Clone(path), "--"+f.Name+"=7")})
		case f.NoOptDefVal == "":
			all = append(all, wrongLine{what: "no value for --" + f.Name, args: append(slices.Clone(path), "--"+f.Name)})
		}
	})
	return all
}

// goText are texts in errors of Go's packages.
var goText = []string{
	"strconv.", "invalid argument \"", "invalid syntax", "unknown flag", "unknown shorthand", "flag needs an argument",
	"goroutine ", "panic", "json:", "parsing \"", "%!",
}

// saysWhy checks that a failed run prints the reason, in words for users.
func saysWhy(t *testing.T, what string, args []string, got ran, mayPass bool) {
	t.Helper()
	out := got.stdout + got.stderr
	switch {
	case got.status == exitOK && !mayPass:
		t.Errorf("%s: %q succeeds: %s", what, args, out)
	case got.status == exitOK && strings.HasPrefix(what, "nonsense") && !strings.Contains(strings.Join(args, " "), "-1") && !warnings.MatchString(out):
		t.Errorf("%s: %q succeeds without a warning: %s", what, args, out)
	case got.status != exitOK && strings.TrimSpace(out) == "":
		t.Errorf("%s: %q is refused (%d) without a word", what, args, got.status)
	}
	for _, text := range goText {
		if strings.Contains(out, text) {
			t.Errorf("%s: %q: %q in: %s", what, args, text, out)
		}
	}
}

// refusing returns a daemon that refuses every change and answers no query.
func refusing(t *testing.T) string {
	n := cannedPeer(t, "peerA")
	n.Refuse = func(string) error { return syscall.EPERM }
	n.answers = nil
	return serve(t, n)
}

// noHost is a machine without information that refuses changes: setup-... --run is among the
// examples.
type noHost struct{}

func (noHost) Address(string, netip.Addr) (netip.Prefix, int, error) {
	return netip.Prefix{}, 0, os.ErrPermission
}
func (noHost) Run(context.Context, ...string) (string, error) { return "", os.ErrPermission }
func (noHost) Sysctl([]string) (string, error)                { return "", os.ErrPermission }
func (noHost) SetSysctl([]string, string) error               { return os.ErrPermission }

// inAnEmptyDirectory makes the test run in an empty directory with a copy of testdata, where
// examples may read and write files.
func inAnEmptyDirectory(t *testing.T) {
	t.Helper()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(testdata, "testdata"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lnet.yaml", "net.yaml", "more.yaml", "pings.yaml"} {
		if err := os.WriteFile(name, []byte("net: []\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runOn runs the program with its output on a pipe, or at a terminal.
func runOn(t *testing.T, terminal bool, args []string) ran {
	t.Helper()
	p := program{name: "lnetdctl", pause: noPause, host: noHost{}}
	if !terminal {
		return runProgram(p, args...)
	}
	person, tty := openTerminal(t)
	p.stdout, p.stderr, p.hints = tty, tty, isTerminal(tty)
	screen := make(chan string)
	go func() {
		b, _ := io.ReadAll(person) // it fails when the other end is closed
		screen <- string(b)
	}()
	status := p.run(args)
	_ = tty.Close()
	return ran{stdout: <-screen, status: status}
}

// Every invalid command line of every command is reported in words for users, on a pipe as on a
// terminal, while the daemon runs.
//
// lnetctl 1 (5), 1 (7)-(8), 2 (1)-(2)
func TestWrongLinesAreToldOfEveryCommand(t *testing.T) {
	inAnEmptyDirectory(t)
	t.Setenv("LST_SESSION", "1")
	t.Setenv("LNETD_CONTROL_SOCKET", refusing(t))
	for k, c := range leaves((&program{name: "lnetdctl"}).root()) {
		if testenv.Race && k%4 != 0 {
			continue // the other commands run the same goroutines
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			lines := wrongLines(c)
			for i, w := range lines[:testenv.Fewer(len(lines))] {
				saysWhy(t, w.what, w.args, runOn(t, false, w.args), w.ignored)
				if i < 8 { // later ones differ only in their text
					saysWhy(t, w.what+" at a terminal", w.args, runOn(t, true, w.args), w.ignored)
				}
				got := runOn(t, false, append([]string{"--json"}, w.args...))
				if got.status != exitOK {
					checkJSONError(t, w.args, got)
				}
				if !w.number {
					continue
				}
				willing := []string{"--control-socket", serve(t, cannedPeer(t, "peerA"))}
				saysWhy(t, w.what+" to a daemon that does all", w.args, runOn(t, false, append(willing, w.args...)), w.ignored)
			}
		})
	}
}

// An option that does not collect values is an error if it is given twice, for every command.
//
// lnetctl 1 (6)
func TestOptionsAreGivenOnce(t *testing.T) {
	inAnEmptyDirectory(t)
	t.Setenv("LST_SESSION", "1")
	t.Setenv("LNETD_CONTROL_SOCKET", refusing(t))
	for _, c := range leaves((&program{name: "lnetdctl"}).root()) {
		path := strings.Fields(c.CommandPath())[1:]
		check := func(f *pflag.Flag) {
			if f.Value.Type() != "bool" || f.Name == wordHelp {
				return
			}
			for _, twice := range [][]string{{"--" + f.Name, "--" + f.Name}, {"-" + f.Shorthand, "--" + f.Name}} {
				if twice[0] == "-" {
					continue
				}
				got := runOn(t, false, append(slices.Clone(path), twice...))
				if out := got.stdout + got.stderr; got.status == exitOK || !strings.Contains(out, "option '--"+f.Name+"' is given twice") {
					t.Errorf("%q %q: status %d, %q", path, twice, got.status, out)
				}
			}
		}
		c.LocalFlags().VisitAll(check)
		c.InheritedFlags().VisitAll(check)
	}
}

// checkJSONError checks that a failure is reported as JSON: after warnings by an error on stderr,
// or on stdout.
func checkJSONError(t *testing.T, args []string, got ran) {
	t.Helper()
	type told struct {
		Error   *api.Fault
		Warning string
	}
	all, err := jsonDocuments[told](got.stderr)
	fault := len(all) > 0 && all[len(all)-1].Error != nil
	if fault {
		f := all[len(all)-1].Error
		fault = f.Code != "" && f.Text != "" && got.stdout == ""
	}
	if !fault && err == nil {
		var results []any
		results, err = jsonDocuments[any](got.stdout)
		fault = len(results) > 0
	}
	if err != nil || !fault {
		t.Errorf("--json %q: status %d, stdout %q, stderr %q: %v", args, got.status, got.stdout, got.stderr, err)
	}
}

// jsonDocuments returns the JSON documents in s.
func jsonDocuments[T any](s string) (all []T, _ error) {
	for d := json.NewDecoder(strings.NewReader(s)); ; {
		var v T
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, v)
	}
}

// Every command reports if the daemon does not run, or refuses a request, on a pipe as on a
// terminal, and as JSON.
//
// lnetctl 1 (10)-(11), 2 (1)-(4)
func TestRefusalsAreToldByEveryCommand(t *testing.T) {
	inAnEmptyDirectory(t)
	t.Setenv("LST_SESSION", "1")
	none := filepath.Join(t.TempDir(), "none")
	sockets := map[string]func(t *testing.T) string{
		"no daemon": func(*testing.T) string { return none }, "a daemon that refuses": refusing,
	}
	for k, c := range leaves((&program{name: "lnetdctl"}).root()) {
		if alone[c.Name()] {
			continue
		}
		if testenv.Race && k%4 != 0 {
			continue // the other commands run the same goroutines
		}
		for what, socket := range sockets {
			t.Run(c.CommandPath()+" "+what, func(t *testing.T) {
				for _, example := range strings.Split(strings.TrimSpace(c.Example), "\n") {
					args := words(example)[1:]
					mayPass := what != "no daemon" // queries are not refused
					t.Setenv("LNETD_CONTROL_SOCKET", socket(t))
					got := runOn(t, false, args)
					saysWhy(t, what, args, got, mayPass)
					t.Setenv("LNETD_CONTROL_SOCKET", socket(t)) // a new socket, as in the first run
					at := runOn(t, true, args)
					saysWhy(t, what+" at a terminal", args, at, mayPass)
					if at.status != got.status {
						t.Errorf("%q: status %d at a terminal, %d on a pipe", args, at.status, got.status)
					}
					t.Setenv("LNETD_CONTROL_SOCKET", socket(t))
					got = runOn(t, false, append([]string{"--json"}, args...))
					if got.status != exitOK {
						checkJSONError(t, args, got)
					}
				}
			})
		}
	}
}

// Every command that prints something also prints it as JSON: with --json the output is one JSON
// document, or one per line.
func TestEveryCommandPrintsJSON(t *testing.T) {
	inAnEmptyDirectory(t)
	t.Setenv("LST_SESSION", "1")
	n := cannedPeer(t, "peerA")
	t.Setenv("LNETD_CONTROL_SOCKET", serve(t, n))
	for _, line := range append(recordedPolicies, "route add --net tcp9 --gateway 10.77.0.1@tcp",
		"selection net add --net tcp", "fault drop add -s * -d * -r 1", "fault delay add -s * -d * -r 1 -l 1") {
		if got := runProgram(program{}, words(line)...); got.status != exitOK {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	for _, c := range leaves((&program{name: "lnetdctl"}).root()) {
		if c.Name() == "completion" { // a script for a shell
			continue
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			for _, example := range strings.Split(strings.TrimSpace(c.Example), "\n") {
				args := slices.DeleteFunc(words(example)[1:], func(word string) bool { return word == "--json" })
				if slices.Contains(args, "--watch") {
					continue // it prints until a signal ends it: TestDoctorWatch
				}
				plain := runOn(t, false, args)
				got := runOn(t, false, append([]string{"--json"}, args...))
				if plain.stdout != "" && plain.status == exitOK && got.stdout == "" {
					t.Errorf("%q prints nothing as JSON", args)
				}
				if _, err := jsonDocuments[any](got.stdout); err != nil {
					t.Errorf("%q: %v in: %s", args, err, got.stdout)
				}
				if got.status != exitOK {
					checkJSONError(t, args, got)
				}
			}
		})
	}
}

// The same with abbreviations of all levels.
func TestWordsOfEveryLevelAsJSON(t *testing.T) {
	for _, line := range []string{"frob", "net frob", "net", "net show --frob", "lst frob", "route add x"} {
		got := runProgram(program{stdin: os.Stdin}, append(words(line), "--json")...)
		if got.status == exitOK {
			t.Errorf("%s succeeds", line)
		}
		checkJSONError(t, words(line), got)
	}
}
