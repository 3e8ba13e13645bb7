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

	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

// commandPatience bounds a command that only says that there is no lnetd.
const commandPatience = time.Minute

// quoted returns the commands of lnetdctl in a page, on separate lines and within sentences.
var quoted = regexp.MustCompile("(?m)(?:(?:^ {4})|`)(lnetdctl [^`\n]+)")

// The commands that pages on alerts tell to use exist, with their options: without an lnetd
// they find no lnetd, and nothing else is wrong.
func TestCommandsOfPagesExist(t *testing.T) {
	dir := t.TempDir()
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	// An empty file for what reads one.
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

// run is what a command says that has no lnetd to talk to.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandPatience)
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
