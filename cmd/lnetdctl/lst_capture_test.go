package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/report"
)

// lstNetwork is two lnetds in this process, with the names and NIDs of the recorded nodes, on a
// network in memory. 10.77.0.13 does not answer.
type lstNetwork struct {
	sockets map[string]string
}

func newLstNetwork(t *testing.T, selftest string) *lstNetwork {
	t.Helper()
	fabric := simlnd.New(simlnd.Config{Seed: 1})
	t.Cleanup(fabric.Close)
	fabric.Host("peerC", "10.77.0.13")
	n := &lstNetwork{sockets: map[string]string{}}
	for name, addr := range map[string]string{"peerA": "10.77.0.11", "peerB": "10.77.0.12"} {
		n.sockets[name] = startLnetd(t, fabric.Host(name, addr), addr, selftest)
	}
	return n
}

// startLnetd runs lnetd on a host until the test ends, and returns its socket.
func startLnetd(t *testing.T, host *simlnd.Host, addr, selftest string) string {
	t.Helper()
	drivers := daemon.Drivers{daemon.TCP(host)}
	c, err := config.Parse("test", fmt.Appendf(nil, `
net: [{net type: tcp, local NI(s): [{nid: %s@tcp}]}]
lnetd: {port: 988, accept: all, socklnd: {min_reconnectms: 1, max_reconnectms: 1}, selftest: {%s}}
`, addr, selftest), drivers.Options())
	if err != nil {
		t.Fatal(err)
	}
	c.ControlSocket = filepath.Join(testenv.SocketDir(t), "c.sock")
	d := daemon.New(c, drivers, nil)
	up := make(chan struct{})
	d.Use("test", func(ctx context.Context, _ *node.Node) error {
		close(up)
		<-ctx.Done()
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("lnetd of %s: %v", addr, err)
		}
	})
	select {
	case <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return c.ControlSocket
}

// lst runs the program as lst on a node and returns its output and its exit status. It does not
// wait between samples.
func (n *lstNetwork) lst(nodeName string, words ...string) (string, int) {
	var out bytes.Buffer
	p := program{
		name: lstName, stdin: strings.NewReader(""), stdout: &out, stderr: &out, socket: n.sockets[nodeName],
		pause: noPause,
	}
	status := p.run(words)
	return out.String(), status
}

// noPause returns at once.
func noPause(context.Context, time.Duration) error { return nil }

// lstStory is a recorded command line with its output.
type lstStory struct {
	node, key string
	commands  []string
	// The outputs of the commands, if the recording separates them. Otherwise the last command has
	// all of it.
	output string
	status int
}

// readLst returns the command lines of a recording.
func readLst(t *testing.T, file string) []lstStory {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "captures-lst", file))
	if err != nil {
		t.Fatal(err)
	}
	var stories []lstStory
	for _, block := range strings.Split(string(b), "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		name, command, ok := strings.Cut(head, "# ")
		if !ok || name == "" {
			continue
		}
		i := strings.LastIndex(rest, "### exit status ")
		if i < 0 {
			t.Fatalf("%s: no exit status after %q", file, command)
		}
		status, err := strconv.Atoi(strings.TrimSpace(rest[i+len("### exit status "):]))
		if err != nil {
			t.Fatal(err)
		}
		s := lstStory{node: name, key: "77", output: rest[:i], status: status}
		if key, commands, ok := strings.Cut(strings.TrimPrefix(command, "export LST_SESSION="), "; "); ok {
			s.key, s.commands = key, strings.Split(commands, "; ")
		} else { // a script that prints its commands
			for line := range strings.Lines(s.output) {
				if text, ok := strings.CutPrefix(line, "+ "); ok {
					s.commands = append(s.commands, strings.TrimSpace(text))
				}
			}
		}
		stories = append(stories, s)
	}
	if len(stories) == 0 {
		t.Fatalf("%s: no commands", file)
	}
	return stories
}

// These match what depends on time: figures, stamps, and how often stop had to check.
var (
	lstFigures  = regexp.MustCompile(`(Avg|Min|Max): [0-9.]+ +`)
	lstStamp    = regexp.MustCompile(` ID: [0-9]+@`)
	lstStopping = regexp.MustCompile(`(?m)^[0-9]+ batch in stopping\n`)
)

func withoutTiming(s string) string {
	s = lstFigures.ReplaceAllString(s, "$1: # ")
	s = lstStamp.ReplaceAllString(s, " ID: #@")
	return lstStopping.ReplaceAllString(s, "")
}

// lstDeviations are the command lines for which our output differs from the recorded one.
var lstDeviations = map[string]func(recorded string) string{
	// lst of 2.15.8 prints the line of sent data for --read (selftest 9).
	"lst stat --rate --read --delay 1 --count 1 servers": func(s string) string { return strings.Replace(s, "[W]", "[R]", 1) },
	// The output of 2.17.
	"lst add_test --batch b1 --from clients --to nosuch ping": func(string) string { return lstNoTest + "\n" },
	"lst foo": func(string) string { return "lst: 'foo' is not a valid command. See 'lst --list-commands'.\n" },
}

// Every lst command of the recordings of 2.15.8 prints the recorded text and has the recorded exit
// status. Figures, stamps and texts that differ in 2.17 are not compared. The commands of a file
// depend on each other. Those recordings of master that print correct names are included.
//
// selftest 8 (1)-(8), 8 (10)-(14), 9 (3)
func TestOutputIsLsts(t *testing.T) {
	files, err := filepath.Glob("testdata/captures-lst/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		t.Run(file, func(t *testing.T) {
			n := newLstNetwork(t, "enabled: true")
			for _, s := range readLst(t, file) {
				t.Setenv("LST_SESSION", s.key)
				var got strings.Builder
				status := 0
				for _, c := range s.commands {
					if strings.HasPrefix(s.output, "+ ") {
						fmt.Fprintf(&got, "+ %s\n", c)
					}
					var text string
					text, status = n.lst(s.node, strings.Fields(c)[1:]...)
					got.WriteString(text)
				}
				want := strings.ReplaceAll(s.output, "session is ended\n", "") // 2.17 prints nothing
				if change := lstDeviations[strings.Join(s.commands, "; ")]; change != nil {
					want = change(want)
				}
				if diff := cmp.Diff(withoutTiming(want), withoutTiming(got.String())); diff != "" {
					t.Errorf("%s: output (-recorded +got):\n%s", strings.Join(s.commands, "; "), diff)
				}
				if status != s.status {
					t.Errorf("%s: exit status %d, recorded %d", strings.Join(s.commands, "; "), status, s.status)
				}
			}
		})
	}
}

// Recorded figures that are parsed and printed again equal the recorded bytes.
//
// selftest 9 (3)
func TestFiguresAreLsts(t *testing.T) {
	files, err := filepath.Glob("testdata/captures-lst/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(`(Avg|Min|Max): ([0-9.]+)`)
	checked := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			direction, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " Avg: ")
			if !ok {
				continue
			}
			_ = rest
			var o statOptions
			var f lstFigureOf
			o.avg = !strings.Contains(line, "Min")
			for _, m := range figure.FindAllStringSubmatch(line, -1) {
				f.set(t, m[1], m[2])
			}
			want := strings.TrimSuffix(line, "\n")
			var got string
			switch {
			case strings.Contains(line, "RPC/s"):
				got = direction + " " + o.rates(f.value(1))
			case strings.Contains(line, "MiB/s"):
				got = direction + " " + o.bandwidths(f.value(1<<20))
			default:
				o.mbs = true
				got = direction + " " + o.bandwidths(f.value(1e6))
			}
			if got != want {
				t.Errorf("%s:\nrecorded %q\ngot      %q", file, want, got)
			}
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("%d lines of figures", checked)
	}
}

// lstFigureOf is a figure in the unit in which it is printed.
type lstFigureOf map[string]float64

func (f *lstFigureOf) set(t *testing.T, name, text string) {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	if *f == nil {
		*f = lstFigureOf{}
	}
	(*f)[name] = v
}

func (f *lstFigureOf) value(unit float64) *report.Figure {
	return &report.Figure{Avg: (*f)["Avg"] * unit, Min: (*f)["Min"] * unit, Max: (*f)["Max"] * unit}
}
