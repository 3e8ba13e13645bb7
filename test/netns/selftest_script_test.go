package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// typical is how lst is commonly used (selftest 8). Do not change it.
const typical = `export LST_SESSION=$$
lst new_session rw
lst add_group c %s
lst add_group s %s
lst add_batch b
lst add_test --batch b --loop 8 --concurrency 4 --distribute 1:1 --from c --to s brw read check=full size=1M
lst run b
lst stat --delay 10 c s & sleep 15
lst show_error c s
lst stop b
lst end_session
`

// Given four nodes that are enabled with lst enable, and a shell in which lst is a function, when
// the typical script runs, then its output is that of the reference.
//
// selftest 8 (15)
func TestSelftestTypicalScript(t *testing.T) {
	t.Parallel()
	testenv.NeedCommand(t, "sh", "dash")
	w := newWorld(t, 1)
	var parties []*loadedDaemon
	for range 4 {
		p := w.host(t, 0).startLoaded(t, &configuration{patient: true})
		p.Must(t, "lst", "enable", "--memory", "64M")
		parties = append(parties, p)
	}
	c, s := nids(parties[:2]), nids(parties[2:])
	u := parties[0].user()

	// The output goes to files, so that the script's stat command can outlive the script, as it
	// does with the reference.
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	complaints, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = complaints.Close() }()
	script := fmt.Sprintf("lst() { '%s' lst \"$@\"; }\n", program(t, "lnetdctl")) + fmt.Sprintf(typical, c, s)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	cmd.Env = u.environ()
	cmd.Stdout, cmd.Stderr = out, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if stderr, readErr := os.ReadFile(complaints.Name()); err != nil || readErr != nil || len(stderr) > 0 {
		t.Errorf("the script: %v, %v\n%s", err, readErr, stderr)
	}

	figures := func(name, group, unit string) string {
		line := `Avg: [0-9.]+ +` + unit + ` +Min: [0-9.]+ +` + unit + ` +Max: [0-9.]+ +` + unit + ` *\n`
		return `\[LNet ` + name + ` of ` + group + `\]\n\[R\] ` + line + `\[W\] ` + line
	}
	want := regexp.MustCompile(`^SESSION: rw FEATURES: 1 TIMEOUT: 300 FORCE: No\n` +
		regexp.QuoteMeta(c+" are added to session\n"+s+" are added to session\nTest was added successfully\nb is running now\n") +
		figures("Rates", "c", "RPC/s") + figures("Bandwidth", "c", "MiB/s") +
		figures("Rates", "s", "RPC/s") + figures("Bandwidth", "s", "MiB/s") +
		`c:\nTotal 0 error nodes in c\ns:\nTotal 0 error nodes in s\nBatch is stopped\n$`)
	got, err := os.ReadFile(out.Name())
	if err != nil || !want.Match(got) {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	for _, p := range parties {
		p.wantNoSession(t, lateness)
		p.wantRest(t)
		p.Must(t, "lst", "disable")
		p.Stop(t)
	}
}
