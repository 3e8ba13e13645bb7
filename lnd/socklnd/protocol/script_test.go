package protocol

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into testdata")

// command is a line of a script: a verb, names, and key=value pairs.
type command struct {
	verb   string
	names  []string
	values map[string]string
}

func parseCommand(line string) command {
	fields := strings.Fields(line)
	c := command{verb: fields[0], values: map[string]string{}}
	for _, f := range fields[1:] {
		if key, value, ok := strings.Cut(f, "="); ok {
			c.values[key] = value
		} else {
			c.names = append(c.names, f)
		}
	}
	return c
}

// runScript executes the commands in a file and compares their output. After each command the file
// has a line of four dashes and the expected output, up to an empty line. Lines that begin with #
// are comments.
func runScript(t *testing.T, path string, run func(command) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	printed := false // the lines are the expected output of a command
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.TrimSpace(line) == "":
			printed = false
		case printed || line == "----\n":
			continue
		case !strings.HasPrefix(line, "#"):
			got.WriteString(line + "----\n" + run(parseCommand(line)))
			printed = true
			continue
		}
		got.WriteString(line)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the script prints something else (go test -rewrite):\n%s", diff)
	}
}

// eachScript runs a test for every script in testdata.
func eachScript(t *testing.T, run func(t *testing.T, path string)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { run(t, path) })
	}
}
