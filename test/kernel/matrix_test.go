package kernel

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// scripted is the program of the scripted peer (package matrix).
var scripted = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "matrix")
	out, err := exec.Command("go", "test", "-c", "-tags", "o2ib", "-o", file, "./matrix").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return file, err
})

// firstRow is the number in the address of the first row. At most maxRows rows are possible.
const firstRow, maxRows = 101, 60

// Given a kernel node, and a scripted peer on the same fabric, the kernel answers each row of the
// test matrix as it did when the row was written.
func TestMatrix(t *testing.T) {
	onEach(t, mixed, func(t *testing.T, l *lab) {
		k := l.guest(t, 0)
		k.must(t, "lnetctl set discovery 0") // a scripted peer has no NIDs to discover
		k.must(t, "cd /sys/module/ko2iblnd/parameters && echo 3 > keepalive && echo 10 > timeout")
		b := l.virtualMachine("p", []int{0})
		b.boot(t)
		program, err := scripted()
		if err != nil {
			t.Fatal(err)
		}
		l.must(t, "put", b.name, program, home+"matrix", "755")
		b.must(t, fmt.Sprintf("for n in $(seq %d %d); do ip address add %s/24 dev eth0; done", firstRow, firstRow+maxRows-1, "10.77.0.$n"))
		var rows []string
		for n := range maxRows {
			rows = append(rows, address(0, firstRow+n))
		}
		const last = 1 // rows for a kernel with other options
		k.matrix(t, &b, "-test.skip "+manyConnections, rows[last:])
		k.must(t, fmt.Sprintf("lnetctl net del --net %[1]s && lnetctl net add --net %[1]s --if eth0 --conns-per-peer 4", l.nets[0]))
		k.matrix(t, &b, "-test.run "+manyConnections, rows[:last])
	})
}

// manyConnections tests a kernel that is configured to have several connections to a peer.
const manyConnections = "TestConnectionsPerPeer"

// matrix makes the scripted peer run some of its rows, each of which has an address.
func (g *guest) matrix(t *testing.T, by *virtualMachine, which string, rows []string) {
	t.Helper()
	var called sync.WaitGroup
	called.Go(func() { g.callsAll(t, by) })
	out, status := by.try(t, fmt.Sprintf("LNETD_TEST_MATRIX_CALLS=%s LNETD_TEST_MATRIX='%s %s' %smatrix -test.v %s 2>&1; s=$?; touch %s.over; exit $s",
		calls, g.primary(), strings.Join(rows, " "), home, which, calls))
	called.Wait()
	by.must(t, "rm -f "+calls+".over")
	told := verdict.FindAllStringSubmatch(out, -1)
	for _, row := range told {
		t.Run(row[2], func(t *testing.T) {
			if row[1] != "PASS" {
				t.Error(row[1])
			}
		})
	}
	if status != 0 || len(told) == 0 {
		t.Errorf("status %d\n%s", status, out)
	}
}

// calls is the file, on the machine of the scripted peer, with the NIDs to which the kernel must
// connect.
const calls = "/run/calls"

// callsAll makes the kernel connect to the NIDs that the scripted peer names, while the peer runs.
func (g *guest) callsAll(t *testing.T, by *virtualMachine) {
	for {
		text, status := by.try(t, fmt.Sprintf("until [ -e %[1]s ] || [ -e %[1]s.over ]; do sleep 0.1; done; cat %[1]s", calls))
		if status != 0 {
			return
		}
		for _, nid := range strings.Fields(text) {
			if out, status := g.try(t, "lnetctl ping --timeout 3 "+nid); status == 0 {
				t.Errorf("%s has answered:\n%s", nid, out)
			}
		}
		if out, status := by.try(t, "rm "+calls); status != 0 {
			t.Errorf("rm: %s", out)
		}
	}
}

// verdict matches the output of a test at the end of each row.
var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): Test(\S+)`)
