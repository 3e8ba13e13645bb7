package timeline

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// Threads of the tests: two of a program, one of a server, and one of another program.
const (
	asker, helper, server, stranger = 10, 11, 20, 99
)

var processes = map[int]string{asker: "requester", helper: "requester", server: "lnetd"}

// request returns the events of one request that begins at a time and takes 30 µs.
func request(at int64) []tracing.Event {
	us := func(n int64) int64 { return at + n*1000 }
	return []tracing.Event{
		{At: us(1), Kind: tracing.Enter, TID: asker, Call: unix.SYS_WRITE},
		{At: us(2), Kind: tracing.Wake, TID: asker, Other: server},
		{At: us(3), Kind: tracing.Exit, TID: asker, Call: unix.SYS_WRITE, Result: 8},
		{At: us(4), Kind: tracing.Enter, TID: asker, Call: unix.SYS_FUTEX},
		{At: us(5), Kind: tracing.Switch, TID: asker, Other: server, Asleep: true},
		{At: us(7), Kind: tracing.Enter, TID: server, Call: 9999},
		{At: us(9), Kind: tracing.Exit, TID: server, Call: 9999, Result: -int64(unix.EAGAIN)},
		{At: us(10), Kind: tracing.Switch, TID: server, Other: stranger},
		{At: us(12), Kind: tracing.Wake, TID: stranger, Other: helper},
		{At: us(14), Kind: tracing.Switch, TID: stranger, Other: server, Asleep: true},
		{At: us(15), Kind: tracing.Switch, TID: server, Other: helper, Asleep: true},
		{At: us(20), Kind: tracing.Wake, TID: helper, Other: asker},
		{At: us(22), Kind: tracing.Switch, TID: helper, Other: asker, Asleep: true},
		{At: us(24), Kind: tracing.Exit, TID: asker, Call: unix.SYS_FUTEX},
	}
}

// A request is shown with all its steps, and the means of all requests are counted.
func TestNew(t *testing.T) {
	r := &Recording{Processes: processes}
	for k := range int64(3) {
		at := 1_000_000 + k*100_000
		r.Events = append(r.Events, request(at)...)
		r.Windows = append(r.Windows, Window{at, at + 30_000 + k})
	}
	line, err := New("a test", r)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := line.Print(&out); err != nil {
		t.Fatal(err)
	}
	const want = `a test: 30.0 µs, median of 3 requests (quartiles 30.0..30.0)

mean of all requests  wake-ups  hand-offs  sleeps  switches  syscalls  
requester             2.00      1.00       2.00    2.00      2.00      futex 1.00, write 1.00
lnetd                 1.00      0.00       1.00    2.00      1.00      syscall_9999 1.00
all                   3.00      1.00       3.00    4.00      3.00      

µs    CPU  thread       
1.0   0    requester/1  write = 8, 2.0 µs
2.0   0    requester/1    wakes lnetd/1
4.0   0    requester/1  futex = 0, 20.0 µs
5.0   0    requester/1    sleeps for 17.0 µs
5.0   0    lnetd/1        runs, 3.0 µs after it was ready
7.0   0    lnetd/1      syscall_9999 = EAGAIN, 2.0 µs
10.0  0    lnetd/1        is preempted for 4.0 µs
12.0  0    requester/2    is woken by a timer, an interrupt or another program
14.0  0    lnetd/1        runs, 4.0 µs after it was ready
15.0  0    lnetd/1        sleeps for 90.0 µs
15.0  0    requester/2    runs, 3.0 µs after it was ready
20.0  0    requester/2    wakes requester/1, a hand-off
22.0  0    requester/2    sleeps for 93.0 µs
22.0  0    requester/1    runs, 2.0 µs after it was ready
30.0                    the request ends
`
	if out.String() != want {
		t.Errorf("it prints\n%swant\n%s", &out, want)
	}
	if c := line.Counts; c.Wakeups != 3 || c.HandOffs != 1 || c.Sleeps != 3 || c.Switches != 4 || c.Calls != 3 {
		t.Errorf("%+v", c)
	}
	text, err := json.Marshal(line)
	if err != nil || !strings.Contains(string(text), `"action":"wake","other":{"process":"lnetd","number":1}`) {
		t.Errorf("%v: %s", err, text)
	}
}

// Without a request there is no timeline.
func TestNothingRecorded(t *testing.T) {
	if _, err := New("a test", &Recording{Processes: processes, Events: request(0)}); err == nil {
		t.Error("no error")
	}
}

// Events that are missing, repeated or in a strange order cause no panic.
func TestStrangeEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tid := rapid.SampledFrom([]int{0, asker, helper, server, stranger, -5})
		r := &Recording{Processes: processes, Windows: []Window{{100, 50}, {0, 500}}}
		for at := range int64(rapid.IntRange(0, 50).Draw(t, "events")) {
			r.Events = append(r.Events, tracing.Event{
				At: at * 10, Kind: tracing.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), TID: tid.Draw(t, "thread"), Other: tid.Draw(t, "other"),
				Asleep: rapid.Bool().Draw(t, "asleep"), Call: rapid.Int64().Draw(t, "call"), Result: rapid.Int64().Draw(t, "result"),
			})
		}
		line, err := New("a test", r)
		if err != nil {
			t.Fatal(err)
		}
		checkSVG(t, line)
		for _, s := range line.Steps {
			if s.Text() == "" || s.Thread.Number < 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// checkSVG checks that the picture of a timeline is well-formed, and returns it.
func checkSVG(t interface{ Fatal(...any) }, line *Timeline) string {
	var b strings.Builder
	if err := WriteSVG(&b, []*Timeline{line}); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The picture has a lane for each thread, by process, and tells each step as text.
func TestWriteSVG(t *testing.T) {
	line, err := New("a <test>", &Recording{Processes: processes, Events: request(0), Windows: []Window{{0, 30_000}}})
	if err != nil {
		t.Fatal(err)
	}
	text := checkSVG(t, line)
	for _, want := range []string{
		"a &lt;test&gt;: 30.0 µs, 3 wake-ups (1 of them hand-offs), 4 context switches, 3 system calls.", "<title>write = 8, 2.0 µs</title>",
		"<title>2.0 µs: requester/1  wakes lnetd/1</title>", "<title>lnetd/1 runs for 5.0 µs on CPU 0</title>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var names []string
	for _, thread := range line.threads() {
		names = append(names, thread.String())
	}
	if got := strings.Join(names, " "); got != "requester/1 requester/2 lnetd/1" {
		t.Errorf("lanes %s", got)
	}
}

// Results are errors, numbers or addresses.
func TestResultText(t *testing.T) {
	for result, want := range map[int64]string{
		0: "0", 8: "8", -int64(unix.EINTR): "EINTR", -4000: "error 4000", 0x7f0000001000: "0x7f0000001000", -5000: fmt.Sprintf("%#x", ^uint64(4999)),
	} {
		if got := resultText(result); got != want {
			t.Errorf("%d: %q, want %q", result, got, want)
		}
	}
}
