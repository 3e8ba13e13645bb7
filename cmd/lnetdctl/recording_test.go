package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
)

// fakeTraffic is a capture of n PUTs.
type fakeTraffic struct{ n int }

func (r fakeTraffic) Capture(see func(*node.Captured)) (stop func(), _ error) {
	for range r.n {
		see(&node.Captured{
			Header:  lnet.Header{Type: lnet.MsgPut, Src: lnet.LoopbackNID, Dest: lnet.LoopbackNID, PayloadLength: 4096},
			Payload: memory.Of(make([]byte, 4096)),
		})
	}
	return func() {}, nil
}

func recordingDaemon(n int) *controltest.Daemon {
	return &controltest.Daemon{CaptureFunc: func(ctx context.Context, f capture.Filter) (server.Stream, error) {
		return capture.Start(ctx, fakeTraffic{n}, f, "test")
	}}
}

// A recording is written to a file that only the user can read, and the numbers of messages are printed.
func TestCaptureToFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.pcapng")
	line := []string{"capture", "-w", file, "--count", "3", "--control-socket", serve(t, recordingDaemon(5))}
	got := runProgram(program{}, line...)
	if diff := cmp.Diff(ran{"", "3 messages recorded\n", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 || info.Size() < 3*96 {
		t.Errorf("%v, %v", info, err)
	}
	got = runProgram(program{}, line...)
	if got.status != exitFailure || !strings.Contains(got.stderr, file+" exists; --force overwrites it") {
		t.Errorf("again: %+v", got)
	}
	if got := runProgram(program{}, append(line, "--force")...); got.status != 0 {
		t.Errorf("with --force: %+v", got)
	}
}

// A recording on standard output is complete, also if lnetd has left out messages.
func TestCaptureToOutput(t *testing.T) {
	const sent = 20000
	got := runProgram(program{}, "capture", "-w", "-", "--duration", "1ms", "--control-socket", serve(t, recordingDaemon(sent)))
	if got.status != 0 || !strings.Contains(got.stderr, " left out because they came too fast\n") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
	var copied bytes.Buffer
	sums, err := copyCapture(&copied, strings.NewReader(got.stdout))
	if err != nil || sums.Recorded == 0 || sums.Recorded+sums.Lost != sent || !sums.Complete || copied.String() != got.stdout {
		t.Errorf("%+v, %v", sums, err)
	}
}

// Options are validated before a file is created.
func TestCaptureOptions(t *testing.T) {
	socket := serve(t, recordingDaemon(1))
	file := filepath.Join(t.TempDir(), "c.pcapng")
	for _, tt := range []struct {
		args []string
		says string
	}{
		{nil, "option '--write' is needed"},
		{[]string{"-w", file, "--nid", "x"}, "nid: "},
		{[]string{"-w", file, "--type", "hello"}, "type: "},
		{[]string{"-w", file, "--count", "0"}, "count: "},
		{[]string{"-w", file, "--nid", ""}, "option '--nid' has no value"},
		{[]string{"-w", file, "--type", ","}, "type: an item of the list is empty"},
		{[]string{"-w", file, "x"}, "unexpected operand 'x'"},
	} {
		got := runProgram(program{}, append([]string{"capture", "--control-socket", socket}, tt.args...)...)
		if got.status != exitInvalid || !strings.Contains(got.stderr, tt.says) {
			t.Errorf("%v: %+v", tt.args, got)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was created")
	}
}

// Data that are not blocks are rejected, and what came before is kept whole.
func TestCopyCapture(t *testing.T) {
	block := binary.LittleEndian.AppendUint32(nil, capturePacket)
	block = binary.LittleEndian.AppendUint32(block, 12)
	block = binary.LittleEndian.AppendUint32(block, 12)
	for name, rest := range map[string][]byte{
		"ends within a head":  {6, 0, 0},
		"ends within a block": block[:11],
		"too short":           {6, 0, 0, 0, 8, 0, 0, 0},
		"too long":            {6, 0, 0, 0, 0, 0, 0, 0xf0},
		"odd":                 {6, 0, 0, 0, 13, 0, 0, 0},
	} {
		var out bytes.Buffer
		sums, err := copyCapture(&out, io.MultiReader(bytes.NewReader(block), bytes.NewReader(rest)))
		if err == nil || sums.Recorded != 1 || !bytes.Equal(out.Bytes(), block) {
			t.Errorf("%s: %+v, %v, %d bytes", name, sums, err, out.Len())
		}
	}
}

// interruptingWriter interrupts this process when the first data are written to it.
type interruptingWriter struct {
	bytes.Buffer
	t *testing.T
}

func (w *interruptingWriter) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			w.t.Error(err)
		}
	}
	return w.Buffer.Write(b)
}

// An interrupted recording is complete, with the number of messages that lnetd has left out.
func TestInterruptedCapture(t *testing.T) {
	const sent = 20000
	out, errs := interruptingWriter{t: t}, bytes.Buffer{}
	p := program{stdout: &out, stderr: &errs}
	status := p.run([]string{"capture", "-w", "-", "--json", "--control-socket", serve(t, recordingDaemon(sent))})
	var sums captureSums
	if err := json.Unmarshal(errs.Bytes(), &sums); err != nil || status != exitOK {
		t.Fatalf("status %d, %v: %s", status, err, &errs)
	}
	if !sums.Complete || sums.Recorded == 0 || sums.Lost == 0 || sums.Recorded+sums.Lost != sent {
		t.Errorf("%+v", sums)
	}
}

// shortWriter has no space after some bytes.
type shortWriter struct {
	bytes.Buffer
	space int
}

func (w *shortWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.space-w.Len())
	w.Buffer.Write(b[:n])
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// When there is no space left, only messages that are whole in the output are counted, and its size without a part of a
// block is known.
func TestCaptureOnFullDisk(t *testing.T) {
	block := binary.LittleEndian.AppendUint32(nil, capturePacket)
	block = binary.LittleEndian.AppendUint32(block, 12)
	block = binary.LittleEndian.AppendUint32(block, 12)
	sums, err := copyCapture(&shortWriter{space: 41}, bytes.NewReader(bytes.Repeat(block, 10)))
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(sums.writes, syscall.ENOSPC) || sums.Recorded != 3 || sums.size != 36 {
		t.Errorf("%+v, %v", sums, err)
	}
}

// Without statistics, the numbers of messages that are missing before each packet are added.
func TestCaptureCountsDrops(t *testing.T) {
	le := binary.LittleEndian
	var b []byte
	for _, lost := range []uint64{3, 4} {
		const length = 28 + 4 + 12 + 4 + 4
		b = le.AppendUint32(le.AppendUint32(b, capturePacket), length)
		b = le.AppendUint64(le.AppendUint32(b, 0), 0)
		b = le.AppendUint32(le.AppendUint32(b, 1), 1)
		b = append(b, 'x', 0, 0, 0)
		b = le.AppendUint16(le.AppendUint16(b, captureOptPacketDropped), 8)
		b = le.AppendUint32(le.AppendUint64(b, lost), captureOptEnd)
		b = le.AppendUint32(b, length)
	}
	sums, err := copyCapture(io.Discard, bytes.NewReader(b))
	if err != nil || sums.Recorded != 2 || sums.Lost != 7 || sums.Complete {
		t.Errorf("%+v, %v", sums, err)
	}
	if got, want := sums.String(), "2 messages recorded, 7 left out because they came too fast; more may be missing, because the capture ends without statistics"; got != want {
		t.Error(got)
	}
}
