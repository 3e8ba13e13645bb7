package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

func TestTop(t *testing.T) {
	n := newBusyNode(t)
	got := runProgram(program{pause: n.pause}, "top", "--count", "1", "--control-socket", serve(t, n))
	want := `lnetd v1.2.3, up 1m 42s; 03:05:47, in 2.0 s, sorted by messages
messages/s: 15.0 sent, 0 received, 4.0 routed, 0 dropped, 0 resent
bytes/s:    0 sent, 0 received, 2048 routed, 0 dropped

NI              sent/s  received/s  dropped/s  sent_bytes/s  received_bytes/s
10.0.0.1@tcp      10.0        20.0          0         50.0k                 0
10.0.1.1@tcp1        0           0          0             0                 0  down: link down

peer NI        sent/s  received/s  dropped/s
10.0.0.2@tcp        0           0          0
10.0.0.3@tcp        0           0          0

program   sent/s  received/s  dropped/s  sent_bytes/s  received_bytes/s
7 store        0           0          0             0                 0

`
	if diff := cmp.Diff(ran{stdout: want}, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// As JSON, each interval is a line. The order is that of --sort, whose values are checked.
func TestTopOptions(t *testing.T) {
	n := newBusyNode(t)
	path := serve(t, n)
	got := runProgram(program{pause: n.pause}, "top", "--count", "2", "--json", "--sort", "name", "--control-socket", path)
	views, err := jsonDocuments[topJSON](got.stdout)
	if err != nil || len(views) != 2 || strings.Count(got.stdout, "\n") != 2 {
		t.Fatal(err, got)
	}
	if v := views[1]; v.Seconds != 2 || v.Node["send_count"] != 15 || len(v.Kinds[topPeers]) != 2 || v.Kinds[topNIs][0].Rates[countSent] != 10 {
		t.Errorf("%+v", v)
	}
	got = runProgram(program{}, "top", "--sort", "receivd", "--control-socket", path)
	if got.status != exitInvalid || !strings.HasSuffix(got.stderr, "did you mean 'received'?\n") {
		t.Errorf("%+v", got)
	}
	n.Down = true
	got = runProgram(program{pause: n.pause}, "top", "--count", "1", "--control-socket", path)
	if got.status != exitOK || !strings.Contains(got.stdout, "\nLNet is not configured\n\nprogram ") {
		t.Errorf("%+v", got)
	}
	if got = runProgram(program{}, "top", "--control-socket", t.TempDir()+"/none"); got.status != exitFailure {
		t.Errorf("without lnetd: %+v", got)
	}
}

// Of many objects those with the most traffic are held for each order, and the others are counted.
func TestTopHoldsTheBusiest(t *testing.T) {
	k := topKind{key: topPeers, heading: "peer NI", names: traffic[:3], best: make([][]rated, len(sortKeys))}
	const many = 10_000
	for i := range many {
		k.add(rated{name: fmt.Sprintf("p%05d", i), rates: []float64{float64(i * 7919 % many), 0, float64(many - i)}})
	}
	for key, want := range map[string]string{countSent: "9999", "name": "p00000", countDropped: "10000", "bytes": "9999", "messages": "9999"} {
		first := k.order(key, 3)
		if len(first) != 3 || !strings.Contains(fmt.Sprint(first[0]), want) {
			t.Errorf("%s: %v", key, first)
		}
	}
	lines := k.lines(countSent, 2)
	if len(lines) != 4 || lines[3] != "and 9998 more" || len(k.order("name", many)) != topMost {
		t.Errorf("%q", lines)
	}
}

// Given more peers than fit into one part of the list, all are counted and the busiest are shown.
func TestTopOfManyPeers(t *testing.T) {
	n := newBusyNode(t)
	n.PeerList = nil
	const many = 6000
	for k := range many {
		nid := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a000000+uint32(k))
		n.PeerList = append(n.PeerList, api.Peer{Primary: nid, NIs: []api.PeerNI{{NID: nid}}})
	}
	path := serve(t, n)
	p := program{pause: func(context.Context, time.Duration) error {
		n.PeerList[many-2].NIs[0].Statistics.Sent += 100
		return n.pause(t.Context(), 0)
	}}
	got := runProgram(p, "top", "--count", "1", "--control-socket", path)
	want := fmt.Sprintf("\n%s     50.0           0          0\n", n.PeerList[many-2].Primary)
	if got.status != exitOK || !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, fmt.Sprintf("\nand %d more\n", many-topLines)) {
		t.Errorf("no %q in %+v", want, got)
	}
}

// A low screen has lines of each kind, and a high one no more than there are.
func TestTopFits(t *testing.T) {
	v := &topView{}
	for _, key := range []string{topNIs, topPeers, topPrograms} {
		k := topKind{key: key, heading: key, names: traffic, best: make([][]rated, len(sortKeys))}
		for i := range 50 {
			k.add(rated{name: fmt.Sprint(key, i), rates: make([]float64, len(traffic))})
		}
		v.kinds = append(v.kinds, k)
	}
	for height, want := range map[int]int{12: 12, 24: 24, 60: 60, 1000: 156} {
		if lines := v.fitting("name", height); len(lines) != want {
			t.Errorf("%d lines on a screen of %d, want %d", len(lines), height, want)
		}
	}
}

// onScreen runs "top" in full screen, waits until the screen contains a text, sends keys, and returns the output and the
// exit status. The function end ends the command in another way than by keys.
func onScreen(t *testing.T, socket, until, keys string, end func()) (screen string, exit int) {
	t.Helper()
	person, tty := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 60}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	p := program{name: "lnetdctl", stdin: tty, stdout: tty, stderr: io.Discard}
	done := make(chan int, 1)
	go func() { done <- p.run([]string{"top", "--interval", "3600", "--control-socket", socket}) }()
	var seen strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(seen.String(), until) {
		n, err := person.Read(b)
		if err != nil {
			t.Fatal(err, seen.String())
		}
		seen.Write(b[:n])
	}
	if _, err := io.WriteString(person, keys); err != nil {
		t.Fatal(err)
	}
	if end != nil {
		end()
	}
	for !strings.Contains(seen.String(), leaveScreen) {
		n, err := person.Read(b)
		if err != nil {
			t.Fatal(err, seen.String())
		}
		seen.Write(b[:n])
	}
	exit = <-done
	after, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", after)); diff != "" {
		t.Errorf("the terminal is not restored: %s", diff)
	}
	return seen.String(), exit
}

// In full screen, keys change the order and end the command, the terminal is restored, no line is longer than the screen
// is wide, and NO_COLOR is respected.
func TestTopScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	socket := serve(t, newBusyNode(t))
	for _, tt := range []struct {
		name, noColor, keys string
		colored             bool
	}{
		{"q", "", "q", true}, {"control-C", "", "\x03", true}, {"another order", "", "zdq", true}, {"without colors", "1", "q", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tt.noColor)
			screen, exit := onScreen(t, socket, "the first rates follow", tt.keys, nil)
			if exit != exitOK || !strings.HasPrefix(screen, enterScreen) || strings.Contains(screen, bold) != tt.colored {
				t.Errorf("status %d: %q", exit, screen)
			}
			if strings.Contains(tt.keys, "d") && !strings.Contains(screen, "sorted by dropp") {
				t.Errorf("%q", screen)
			}
		})
	}
}

// A signal ends the command and the terminal is restored. The exit status is that of shells.
func TestSignalEndsTopScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	socket := serve(t, newBusyNode(t))
	for signal, want := range map[unix.Signal]int{unix.SIGTERM: 143, unix.SIGINT: 130} {
		_, exit := onScreen(t, socket, "the first rates follow", "", func() {
			if err := unix.Kill(os.Getpid(), signal); err != nil {
				t.Error(err)
			}
		})
		if exit != want {
			t.Errorf("%v: status %d", signal, exit)
		}
	}
}

// While lnetd does not answer, the screen says so and what to do.
func TestTopScreenWithoutDaemon(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, exit := onScreen(t, t.TempDir()+"/none", "cannot reach lnetd", "q", nil)
	if exit != exitOK || !strings.Contains(screen, "cannot reach lnetd") {
		t.Errorf("status %d: %q", exit, screen)
	}
}

// Names come from other processes. What a terminal would interpret is replaced.
func TestCut(t *testing.T) {
	for line, want := range map[string]string{"short": "short", "äöüäöüäöüäöü": "äöüäöüäöüä", "a\x1b[2Jb\u009b\x7f\r": "a?[2Jb???", "\xff": "?"} {
		if got := cut(line, 10); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// The screen shows the rates, and the exit status of an unknown signal is that of a failure.
func TestScreenLines(t *testing.T) {
	n := newBusyNode(t)
	c := (&program{socket: serve(t, n)}).client()
	defer c.Close()
	tp := &top{sort: "messages"}
	if lines := tp.screenLines(topResult{}, 30); lines[2] != "reading the counters" {
		t.Errorf("%q", lines)
	}
	for range 2 {
		view, err := tp.sample(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_ = n.pause(t.Context(), time.Second)
		lines := strings.Join(tp.screenLines(topResult{view: view}, 30), "\n")
		if view.seconds > 0 && !strings.Contains(lines, "\n10.0.0.1@tcp      10.0        20.0") {
			t.Errorf("%s", lines)
		}
	}
	f := &api.Fault{Code: api.CodeBusy, Text: "busy"}
	if lines := tp.screenLines(topResult{err: f}, 30); lines[2] != "busy" || lines[4] == "" {
		t.Errorf("%q", lines)
	}
	if b, err := json.Marshal(topJSON{}); err != nil || len(b) == 0 {
		t.Error(err)
	}
}
