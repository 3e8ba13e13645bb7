package netns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// smoke is the script of the reference's regression suite, for two clients and a server. Its run is
// shorter than the original 5 minutes; --timeo is unchanged.
const smoke = `set -e
lst new_session --timeo 100000 hh
lst add_group c %s
lst add_group s %s
lst list_group s bad_group c
lst add_batch b
for test in write read ping; do
	for size in 4k 8k 256k 1M; do
		for concurrency in 1 2 4 8; do
			case $test in
			ping) what=ping ;;
			*) what="brw $test check=full size=$size" ;;
			esac
			set -- --batch b --loop 100000 --concurrency $concurrency
			lst add_test "$@" --distribute 2:1 --from c --to s $what
			lst add_test "$@" --distribute 1:2 --from s --to c $what
		done
	done
done
lst run b
sleep 1
lst stat --delay 1 --timeout 10 c s > /dev/null & pid=$!
sleep 3
kill $pid
lst show_error c
lst show_error s
lst end_session
`

// Given three nodes, and lnetdctl under the name lst, when the regression suite's script runs 96
// tests at once, half of them in each direction, then no command fails, every node sends requests and moves data
// in both directions, no node finds an error, and a new session can be created at once.
//
// selftest 8 (13), 8 (16), 11 (8)
// sanity-lnet 12 (1)-(5)
func TestSelftestSmoke(t *testing.T) {
	t.Parallel()
	testenv.NeedCommand(t, "sh", "dash")
	b := newTestbed(t, 2, 1, &configuration{patient: true}, longTimeouts...)
	u := b.console.user()
	bin := t.TempDir()
	if err := os.Symlink(program(t, "lnetdctl"), filepath.Join(bin, "lst")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(smoke, nids(b.clients), nids(b.servers)))
	cmd.Env = append(u.environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("the script: %v\n%s%s", err, stdout.String(), stderr.String())
	}
	want := regexp.MustCompile(`^SESSION: hh FEATURES: 1 TIMEOUT: 100000 FORCE: No\n` +
		regexp.QuoteMeta(nids(b.clients)+" are added to session\n"+nids(b.servers)+" are added to session\n") +
		`\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t1\t0\t0\t0\t1\ts\n\t2\t0\t0\t0\t2\tc\n` +
		`(Test was added successfully\n){96}b is running now\n` +
		`c:\nTotal 0 error nodes in c\ns:\nTotal 0 error nodes in s\n$`)
	if !want.MatchString(stdout.String()) {
		t.Errorf("the script says\n%s\nwant\n%s", stdout.String(), want)
	}
	for _, p := range b.all()[1:] {
		if c := p.selftest(t).Counters; c.Sent == 0 || c.BulkGet == 0 || c.BulkPut == 0 || c.Errors+c.Expired > 0 {
			t.Errorf("%s counts %+v", p.host.nid(), c)
		}
	}
	u = b.session(t)
	u.endSession(t, b.all())
	b.end(t)
}
