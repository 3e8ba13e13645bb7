package daemon

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// fakeJournal is a socket like the journal's.
type fakeJournal struct {
	*net.UnixConn
	path string
}

func listenJournal(t *testing.T, path string) *fakeJournal {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &fakeJournal{c, path}
}

func journalPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(testenv.SocketDir(t), "socket")
}

// next returns the next entry, by its fields.
func (f *fakeJournal) next(t *testing.T) map[string]string {
	t.Helper()
	data, oob := make([]byte, 1<<20), make([]byte, unix.CmsgSpace(4))
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, noob, _, _, err := f.ReadMsgUnix(data, oob)
	if err != nil {
		t.Fatal(err)
	}
	if data = data[:n]; noob > 0 {
		data = passed(t, oob[:noob])
	}
	return fieldsOf(t, data)
}

// passed returns the content of a file that was passed, and checks that it is sealed.
func passed(t *testing.T, oob []byte) []byte {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if seals, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GET_SEALS, 0); err != nil || seals != all {
		t.Errorf("seals %#x, %v", seals, err)
	}
	file := os.NewFile(uintptr(fds[0]), "entry")
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fieldsOf parses the journal's native form.
func fieldsOf(t *testing.T, b []byte) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for len(b) > 0 {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !found {
			t.Fatalf("no end: %q", b)
		}
		name, value, plain := strings.Cut(string(line), "=")
		if !plain {
			n := binary.LittleEndian.Uint64(rest)
			value, rest = string(rest[8:8+n]), rest[8+n:]
			if rest[0] != '\n' {
				t.Fatalf("%s does not end: %q", name, rest)
			}
			rest = rest[1:]
		}
		if _, twice := fields[name]; twice {
			t.Errorf("%s comes twice", name)
		}
		fields[name] = value
		b = rest
	}
	return fields
}

// Given all kinds of attributes, when they are logged, then the journal receives each as a field,
// and all of them in MESSAGE on one line.
func TestJournalEntry(t *testing.T) {
	f := listenJournal(t, journalPath(t))
	level := &slog.LevelVar{}
	j := newJournal(f.path)
	defer j.close()
	log := slog.New(newJournalHandler(j, level, slog.DiscardHandler))
	nid, err := lnet.ParseNID("10.0.0.2@tcp")
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("too low")
	log.With("nid", nid).WithGroup("a").With("x", 1).Warn("connect failed",
		"peer", nid, "cause", errors.New("no\nway"), "within", time.Second, "examples", []string{"a", "b"},
		"naughty key=\n", "\x1b[2Jhello\u202e", "empty", "", slog.Group("g", "y", true), "nothing", nil,
		"broken", (*net.UnixAddr)(nil))
	level.Set(slog.LevelError)
	log.Warn("too low")
	log.Error("worse")
	want := map[string]string{
		"MESSAGE": `connect failed nid=10.0.0.2@tcp a.x=1 a.peer=10.0.0.2@tcp a.cause="no\nway" a.within=1s a.examples="a b" ` +
			`"a.naughty key=\n"="\x1b[2Jhello\u202e" a.empty="" a.g.y=true a.nothing=<nil> a.broken=<nil>`,
		"PRIORITY": "4", "SYSLOG_IDENTIFIER": "lnetd", "LNET_EVENT": "connect failed",
		"LNET_NID": "10.0.0.2@tcp", "LNET_A_X": "1", "LNET_A_PEER": "10.0.0.2@tcp", "LNET_A_CAUSE": "no\nway", "LNET_A_WITHIN": "1s",
		"LNET_A_EXAMPLES": "a b", "LNET_A_NAUGHTY_KEY__": "\x1b[2Jhello\u202e", "LNET_A_EMPTY": "", "LNET_A_G_Y": "true",
		"LNET_A_NOTHING": "<nil>", "LNET_A_BROKEN": "<nil>",
	}
	if d := cmp.Diff(want, f.next(t)); d != "" {
		t.Error(d)
	}
	want = map[string]string{"MESSAGE": "worse", "PRIORITY": "3", "SYSLOG_IDENTIFIER": "lnetd", "LNET_EVENT": "worse"}
	if d := cmp.Diff(want, f.next(t)); d != "" {
		t.Error(d)
	}
}

// Given an entry that is too large for a datagram, when it is logged, then it is sent as a sealed
// file.
func TestJournalLargeEntry(t *testing.T) {
	f := listenJournal(t, journalPath(t))
	j := newJournal(f.path)
	defer j.close()
	large := strings.Repeat("x", 1<<20)
	slog.New(newJournalHandler(j, slog.LevelInfo, slog.DiscardHandler)).Info("large", "what", large)
	if got := f.next(t); got["LNET_WHAT"] != large || got["PRIORITY"] != "6" {
		t.Errorf("%d bytes, %q", len(got["LNET_WHAT"]), got["PRIORITY"])
	}
}

// Given a journal that restarts, when lines are logged, then those in between are written to
// standard error with all their attributes.
func TestJournalGoesAndComes(t *testing.T) {
	path := journalPath(t)
	var out bytes.Buffer
	j := newJournal(path)
	defer j.close()
	log := slog.New(newJournalHandler(j, slog.LevelInfo, newZapHandler(&out, slog.LevelInfo, config.FormatJSON))).With("nid", "a")
	log.Info("before")
	f := listenJournal(t, path)
	log.Info("first")
	f.next(t)
	_ = f.Close()
	_ = os.Remove(path)
	log.Info("gone", "k", 1)
	f = listenJournal(t, path)
	log.Info("back")
	if got := f.next(t)["MESSAGE"]; got != "back nid=a" {
		t.Error(got)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"msg":"before"`) || !strings.Contains(lines[1], `"msg":"gone","nid":"a","k":1`) {
		t.Errorf("%q", lines)
	}
}

// Given a journal that does not read, when many goroutines log, then none of them is blocked.
// Entries that the journal does not accept are lost, and reported when it reads again.
func TestJournalStuck(t *testing.T) {
	f := listenJournal(t, journalPath(t))
	j := newJournal(f.path)
	defer j.close()
	log := slog.New(newJournalHandler(j, slog.LevelInfo, slog.DiscardHandler))
	const lines = 20000 // more than a socket holds; with journalTimeout for each, it would take half an hour
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for k := range lines / 4 {
				log.Info("line", "k", k)
			}
		}()
	}
	for range 4 {
		<-done
	}
	lost := j.lost.Load()
	if lost == 0 {
		t.Fatal("nothing is lost")
	}
	f.next(t) // leaves room for one entry, but not for the report of lost ones
	log.Info("line")
	now := j.lost.Load()
	if now < lost {
		t.Errorf("of %d that are lost %d are known", lost, now)
	}
	lost = now
	for range lines - lost {
		if got := f.next(t)["LNET_EVENT"]; got != "line" {
			t.Fatal(got)
		}
	}
	log.Info("again")
	if got := f.next(t)["MESSAGE"]; got != "again" {
		t.Error(got)
	}
	want := map[string]string{
		"MESSAGE": fmt.Sprintf("%s lines=%d", textLost, lost), "LNET_EVENT": textLost, "LNET_LINES": fmt.Sprint(lost),
		"PRIORITY": "4", "SYSLOG_IDENTIFIER": "lnetd",
	}
	if d := cmp.Diff(want, f.next(t)); d != "" {
		t.Error(d)
	}
}

// Without a journal, a terminal gets text, and anything else, such as a pipe, JSON.
func TestFormatOnATerminal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(r.Close(), w.Close()) }()
	for _, tt := range []struct {
		file *os.File
		want config.Format
	}{{terminal, config.FormatText}, {w, config.FormatJSON}} {
		if got := formatFor(tt.file, config.FormatAuto); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.file.Name(), got, tt.want)
		}
	}
}

// The journal is used if standard error is the stream that JOURNAL_STREAM names.
func TestFormatFor(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", s.Dev, s.Ino)
	for _, tt := range []struct {
		w      io.Writer
		stream string
		given  config.Format
		want   config.Format
	}{
		{file, own, config.FormatAuto, config.FormatJournal},
		{file, own + "1", config.FormatAuto, config.FormatJSON},
		{file, "", config.FormatAuto, config.FormatJSON},
		{file, own, config.FormatText, config.FormatText},
		{file, "", config.FormatJournal, config.FormatJournal},
		{&bytes.Buffer{}, own, config.FormatAuto, config.FormatJSON},
	} {
		t.Setenv("JOURNAL_STREAM", tt.stream)
		if got := formatFor(tt.w, tt.given); got != tt.want {
			t.Errorf("%v with %q is %v, want %v", tt.given, tt.stream, got, tt.want)
		}
	}
}

// Given text from a peer with all characters that move a cursor or end a line, when it is logged,
// then it is one printable line in each format, and JSON preserves it.
func TestHostileText(t *testing.T) {
	hostile := "a\nb\r\x1b[31m\x00\u0085\u009b2J\u2028\u202e\U000e0041\ufeff\xff\"end"
	for _, format := range []config.Format{config.FormatJSON, config.FormatText} {
		var out bytes.Buffer
		NewLogger(&out, slog.LevelInfo, format).Warn("hello", "name", hostile, "err", errors.New(hostile), hostile, 1)
		line := out.String()
		if !strings.HasSuffix(line, "\n") || !printableOnly([]byte(strings.ReplaceAll(line, "\ufffd", ""))) {
			t.Errorf("%v: %q", format, line)
		}
		if format == config.FormatText {
			_, line, _ = strings.Cut(line, "hello\t")
		}
		var said struct{ Name string }
		if err := json.Unmarshal([]byte(line), &said); err != nil || said.Name != strings.ToValidUTF8(hostile, "\ufffd") {
			t.Errorf("%v: %q, %v", format, said.Name, err)
		}
	}
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo, config.FormatText).Warn("two\nlines é")
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "two\\u000alines é") {
		t.Errorf("%q", out.String())
	}
}
