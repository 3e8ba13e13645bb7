package prometheus

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// commandTimeout is the time limit for a command that only reports that lnetd does not run.
const commandTimeout = time.Minute

// quoted returns the commands of lnetdctl in a page, on separate lines and within sentences.
var quoted = regexp.MustCompile("(?m)(?:(?:^ {4})|`)(lnetdctl [^`\n]+)")

// The commands in pages on alerts exist, with their options: without an lnetd they report only that
// lnetd does not run.
func TestCommandsOfPagesExist(t *testing.T) {
	dir := t.TempDir()
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	// An empty file for commands that read one.
	file := filepath.Join(dir, "lnetd.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, page := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(read(t, in("docs", "alerts", page+".md")), -1) {
			if seen[m[1]] {
				continue
			}
			seen[m[1]] = true
			args := strings.Fields(strings.NewReplacer("/etc/lnetd/lnetd.yaml", file, " N", " 7").Replace(m[1]))[1:]
			if out := run(t, filepath.Join(dir, "lnetdctl"), args...); !strings.Contains(out, "cannot reach lnetd") {
				t.Errorf("%s: %s says\n%s", page, m[1], out)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d commands were found", len(seen))
	}
}

// run returns the output of a command without an lnetd.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LNETD_CONTROL_SOCKET="+filepath.Join(t.TempDir(), "none.sock"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}
