package tshark

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// Stream is the bytes that one side of a TCP connection sent. It starts with an acceptor request, a HELLO
// or a frame.
type Stream struct {
	// Name is the name of the stream in error messages.
	Name string
	// Bytes may end within a message.
	Bytes []byte
}

// Checked is the result of Check.
type Checked struct {
	// Compared is the number of messages that tshark decoded.
	Compared int
	// NotShown counts, by name, the units that tshark cannot decode: "CONNREQ", "HELLO", "NOOP", and
	// messages of other versions, such as "GET v4".
	NotShown map[string]int
}

// Decode has tshark decode the streams and returns the messages of each. It ends the test if a stream is
// malformed or tshark is not installed.
func Decode(t testing.TB, streams ...Stream) [][]Message {
	t.Helper()
	messages, _ := decode(t, streams)
	return messages
}

// Check fails the test if tshark and our decoder disagree about a message in the streams, or about where
// a message starts. A malformed stream ends the test. Check holds tshark's output in memory, which is
// twice as large as the streams. Pass megabytes, not gigabytes.
func Check(t testing.TB, streams ...Stream) Checked {
	t.Helper()
	theirs, units := decode(t, streams)
	checked := Checked{NotShown: map[string]int{}}
	for i, s := range streams {
		var ours []Message
		for j := range units[i] {
			u := &units[i][j]
			if !shown(u) {
				name := u.Name()
				if u.Kind == recording.KindMessage {
					name += " " + u.Version.String()
				}
				checked.NotShown[name]++
				continue
			}
			ours = append(ours, Message{Size: len(u.Raw), Frame: u.Frame, Header: u.Header})
		}
		checked.Compared += len(theirs[i])
		if diff := cmp.Diff(ours, theirs[i], equalNIDs); diff != "" {
			t.Errorf("%s: our decoding (-) and tshark's (+):\n%s", s.Name, diff)
		}
	}
	return checked
}

var equalNIDs = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

func decode(t testing.TB, streams []Stream) ([][]Message, [][]recording.Unit) {
	t.Helper()
	testenv.NeedCommand(t, "tshark", "tshark")
	c := newCapture()
	var units [][]recording.Unit
	for i, s := range streams {
		parsed, err := recording.Parse(s.Bytes)
		if err != nil && !lnet.IsShort(err) {
			t.Fatalf("%s: %v", s.Name, err)
		}
		c.add(i, parsed)
		units = append(units, parsed)
	}
	text, err := run(t.TempDir(), c.file)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := parsePDML(text, c.streamOf, len(streams))
	if err != nil {
		t.Fatal(err)
	}
	return messages, units
}

// run decodes a pcap file with tshark and returns its output.
func run(dir string, file []byte) ([]byte, error) {
	path := filepath.Join(dir, "streams.pcap")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("tshark", "-r", path, "-T", "pdml", "-j", "lnet",
		"--disable-protocol", "lustre")
	// The settings of the user who runs the test must not change the result.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("tshark: %w: %s", err, exit.Stderr)
	}
	return text, err
}
