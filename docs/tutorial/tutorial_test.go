// Package tutorial checks docs/tutorial-go.md: that it shows the programs in the
// folders here as they are, and that they print what it says.
package tutorial

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

const page = "../tutorial-go.md"

var update = flag.Bool("update", false, "write the programs into docs/tutorial-go.md")

// blockForm is a program, or what it prints, on the page.
var blockForm = regexp.MustCompile("(?s)```(go|text) tutorial/(\\S+)\n(.*?)```\n")

// The page shows every program as it is.
func TestPagePrograms(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	fresh := blockForm.ReplaceAllStringFunc(string(text), func(block string) string {
		form := blockForm.FindStringSubmatch(block)
		if form[1] != "go" {
			return block
		}
		program, err := os.ReadFile(form[2])
		if err != nil {
			t.Error(err)
		}
		shown[form[2]] = true
		if d := cmp.Diff(string(program), form[3]); d != "" && !*update {
			t.Errorf("%s (-is +shown; go test ./docs/tutorial -update shows it):\n%s", form[2], d)
		}
		return "```go tutorial/" + form[2] + "\n" + string(program) + "```\n"
	})
	if *update {
		if err := os.WriteFile(page, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	programs, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		if !shown[filepath.ToSlash(program)] {
			t.Errorf("docs/tutorial-go.md does not show %s", program)
		}
	}
}

// README.md shows the first program as it is, with its output, and the places that units use.
func TestReadme(t *testing.T) {
	const name = "../../README.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("ping/main.go")
	if err != nil {
		t.Fatal(err)
	}
	tutorial, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n.*?```\n")
	if n := len(block.FindAll(text, -1)); n != 1 {
		t.Errorf("%d programs, want 1", n)
	}
	want := block.ReplaceAllLiteral(text, []byte("```go\n"+string(program)+"```\n"))
	if d := cmp.Diff(string(want), string(text)); d != "" && !*update {
		t.Errorf("ping (-is +shown; go test ./docs/tutorial -update shows it):\n%s", d)
	}
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output := regexp.MustCompile("(?s)```text tutorial/ping\n(.*?```\n)").FindSubmatch(tutorial)
	if len(output) == 0 || !strings.Contains(string(text), "It prints:\n\n```text\n"+string(output[1])) {
		t.Errorf("README.md does not show what ping prints, which is\n%s", output)
	}
	unit, err := os.ReadFile("../../deploy/systemd/lnetd.service")
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`--config (\S+)`).FindSubmatch(unit)
	if len(file) == 0 || !strings.Contains(string(text), "`"+string(file[1])+"`") {
		t.Errorf("README.md does not name the configuration file of the unit, which is %q", file)
	}
}

// Every program prints what the page says.
func TestPageOutput(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // by program
	for _, form := range blockForm.FindAllStringSubmatch(string(text), -1) {
		if form[1] == "text" {
			said[form[2]] = form[3]
		}
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin+"/", "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	for _, program := range programs {
		name := filepath.Dir(program)
		t.Run(name, func(t *testing.T) {
			port, err := daemontest.FreePort("127.0.0.1", "127.0.0.2", "127.0.1.1", "127.0.1.2")
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			run := exec.CommandContext(t.Context(), filepath.Join(bin, name))
			if name != "portal" { // which uses no network
				run.Args = append(run.Args, "-port", strconv.Itoa(port))
			}
			run.Stderr = &stderr
			out, err := run.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			if d := cmp.Diff(said[name], string(out)); d != "" {
				t.Errorf("output (-said +printed):\n%s", d)
			}
		})
	}
}
