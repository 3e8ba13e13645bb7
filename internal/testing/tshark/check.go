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

// Stream has the bytes that one side of a TCP connection sent. They start with an acceptor request, a
// HELLO or a frame.
type Stream struct {
	// Name names the stream in error messages.
	Name string
	// Bytes are the bytes. They may end within a message.
	Bytes []byte
}

// Checked is the result of Check.
type Checked struct {
	// Compared is the number of messages that tshark decoded.
	Compared int
	// NotShown has the numbers of units that tshark cannot decode and that were not compared, by name:
	// "CONNREQ", "HELLO", "NOOP", and messages of other versions, such as "GET v4".
	NotShown map[string]int
}

// Decode decodes the streams with tshark and returns the messages of each stream. It ends the test if a
// stream is malformed, and skips or ends it if tshark is not installed.
func Decode(t testing.TB, streams ...Stream) [][]Message {
	t.Helper()
	messages, _ := decode(t, streams)
	return messages
}

// Check decodes the streams with tshark and with our decoder. It fails the test if both disagree about a
// message or about where a message starts. It ends the test if a stream is malformed. Check keeps
// tshark's output in memory, which is twice as large as the streams, so the streams should have
// megabytes, not gigabytes.
func Check(t testing.TB, streams ...Stream) Checked {
	t.Helper()
	theirs, units := decode(t, streams)
	checked := Checked{NotShown: map[string]int{}}
	for i, s := range streams {
		var ours []Message
		for j := range units[i] {
			u := &units[i][j]
			if !isDecodable(u) {
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

// run decodes a pcap file with tshark and returns tshark's output. It writes the file to dir.
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
