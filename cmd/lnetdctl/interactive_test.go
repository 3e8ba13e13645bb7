package main

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Commands are read from standard input, one per line. Names may be abbreviated and in any case,
// and there is no quoting. The first command that fails is the last one, and determines the exit
// status.
//
// lnetctl 1 (1)-(2), 1 prompt
func TestInteractive(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	const unknown = "lnetdctl: 'foo' is not a valid command. See 'lnetdctl --list-commands'.\n"
	for name, tt := range map[string]struct {
		in             string
		stdout, stderr []string // expected texts, in this order
		status         int
	}{
		"nothing":          {},
		"empty lines":      {in: "\n \t \n# a remark\n"},
		"one":              {in: "net show --net tcp", stdout: []string{"nid: 10.77.0.11@tcp"}},
		"names cut":        {in: "NE sho -n tcp\nn SH -n tcp1\n", stdout: []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}},
		"tabs":             {in: "net\t show \t--net\ttcp\n", stdout: []string{"10.77.0.11@tcp"}},
		"no quoting":       {in: "fault drop add -s '*' -d * -r 1\n", stdout: []string{"failed to add drop rule: "}, status: 234},
		"stops":            {in: "foo\nnet show\n", stderr: []string{unknown}, status: 255},
		"goes on":          {in: "ignore_errors\nfoo\nping x\nnet show\n", stdout: []string{"net:"}, stderr: []string{unknown, "errno: -22"}, status: 255},
		"goes on, dashed":  {in: "--ignore_errors\nping x\nfoo\nnet show\n", stdout: []string{"net:"}, stderr: []string{"errno: -22", unknown}, status: 234},
		"quit":             {in: "quit\nfoo\n"},
		"exit":             {in: "net show\nEXIT\nfoo\n", stdout: []string{"net:"}},
		"ambiguous":        {in: "rout show\n", stderr: []string{"'rout' is ambiguous: it may be route, routing\n"}, status: 255},
		"words":            {in: "version\nhelp ping\nlist-commands\n", stdout: []string{"lnetdctl ", "NAME\n", "--source", "capture "}},
		"help is no work":  {in: "net --help\n", stdout: []string{"NAME\n"}, status: 1},
		"no second level":  {in: "lst\nlst\n"},
		"a group":          {in: "net\n", stdout: []string{"lnetdctl net show"}, status: 234},
		"without newline":  {in: "foo", stderr: []string{unknown}, status: 255},
		"options, no more": {in: "--json\nnet show\n", stdout: []string{"net:"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := runProgram(program{stdin: strings.NewReader(tt.in)}, "--control-socket", path)
			inOrder(t, "stdout", got.stdout, tt.stdout)
			inOrder(t, "stderr", got.stderr, tt.stderr)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
		})
	}
}

// inOrder checks that the texts are in s, one after the other, and that s is empty if there are no
// texts.
func inOrder(t *testing.T, what, s string, texts []string) {
	t.Helper()
	if len(texts) == 0 && s != "" {
		t.Errorf("%s: %q", what, s)
	}
	rest := s
	for _, text := range texts {
		_, behind, ok := strings.Cut(rest, text)
		if !ok {
			t.Errorf("%s lacks %q in its place:\n%s", what, text, s)
		}
		rest = behind
	}
}

// lst has the same mode with its commands. It accepts the common options of the command line.
//
// lnetctl 1 prompt
func TestInteractiveLst(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	for _, p := range []program{{name: lstName}, {name: "lnetdctl"}} {
		p.socket = n.sockets["peerA"]
		p.stdin = strings.NewReader("new_s s\nadd_g g 10.77.0.11@tcp\nlist_g\nend_session\nend_session\nlist_group\n")
		var args []string
		if p.name != lstName {
			args = []string{lstName}
		}
		got := runProgram(p, args...)
		inOrder(t, "stdout", got.stdout, []string{"SESSION: s ", "10.77.0.11@tcp are added to session\n", "1) g\nTotal 1 groups\n"})
		if got.status != exitFailure || got.stderr != "No session exists\n" {
			t.Errorf("%s: %+v", p.name, got)
		}
	}
}

// At a terminal there is a prompt, a line can be edited, tab completes, and earlier lines can be
// recalled. A command that fails is not the last one.
//
// lnetctl 1 prompt
func TestInteractiveAtATerminal(t *testing.T) {
	person, tty := openTerminal(t)
	p := program{
		name: "lnetdctl", stdin: tty, stdout: tty, stderr: tty, hints: true, socket: serve(t, cannedPeer(t, "peerA")),
	}
	ended := make(chan int, 1)
	go func() { ended <- p.run(nil) }()
	screen := make(chan byte) // read apart, because a read of a terminal cannot be interrupted
	go func() {
		for in := bufio.NewReader(person); ; {
			b, err := in.ReadByte()
			if err != nil {
				return
			}
			select {
			case screen <- b:
			case <-t.Context().Done():
				return
			}
		}
	}()
	limit := time.After(time.Minute)
	see := func(text string) {
		t.Helper()
		var seen strings.Builder
		for !strings.HasSuffix(seen.String(), text) {
			select {
			case b := <-screen:
				seen.WriteByte(b)
			case <-limit:
				t.Fatalf("%q is not seen, but %q", text, seen.String())
			}
		}
	}
	write := func(text string) {
		t.Helper()
		if _, err := io.WriteString(person, text); err != nil {
			t.Fatal(err)
		}
	}
	see("quit ends the program\r\n")
	see("> ")
	write("fooo\x7f\r") // the last o is deleted
	see("'foo' is not a valid command.")
	see("> ")
	write("glo\tsho\t\r")
	see("global:\r\n")
	see("lnd_timeout: ")
	see("> ")
	write("\x1b[A\r") // the previous line
	see("global:\r\n")
	see("> ")
	write("ping 10.77.0.12@tcp\t1\t\r") // both NIDs of the peer begin like this
	see("10.77.0.12@tcp1")
	see("> ")
	write("quit\r")
	select {
	case status := <-ended:
		if status != exitFailure {
			t.Errorf("status %d, want that of the first that failed", status)
		}
	case <-limit:
		t.Error("quit does not end the program")
	}
}

// lst has a different prompt.
func TestInteractiveLstAtATerminal(t *testing.T) {
	person, tty := openTerminal(t)
	p := program{name: lstName, stdin: tty, stdout: tty, stderr: tty, socket: filepath.Join(t.TempDir(), "none")}
	ended := make(chan int)
	go func() { ended <- p.run(nil) }()
	prompt := make([]byte, len("lst > "))
	if _, err := io.ReadFull(person, prompt); err != nil || string(prompt) != "lst > " {
		t.Errorf("%q, %v", prompt, err)
	}
	if _, err := io.WriteString(person, "\x04"); err != nil { // end of input
		t.Fatal(err)
	}
	if status := <-ended; status != exitOK {
		t.Errorf("status %d", status)
	}
}
