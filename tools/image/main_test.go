package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaults checks invalid arguments. test/packages checks the content of the image.
func TestFaults(t *testing.T) {
	stage := t.TempDir()
	for _, part := range packageParts {
		if err := os.MkdirAll(filepath.Join(stage, "amd64", "root", part), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "image")
	args := []string{"-version", "v1.2.3", "-o", out, stage, "amd64"}
	if err := run(args, "1790000000", io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "index.json")); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		name, epoch, want string
		args              []string
	}{
		{"twice", "1790000000", fs.ErrExist.Error(), args},
		{"no time", "", "SOURCE_DATE_EPOCH", args},
		{"no version", "1", "are needed", []string{"-o", out, stage, "amd64"}},
		{"no machine", "1", "are needed", args[:5]},
		{"machine that is not there", "1", "arm64: ", append(args[:5:5], "arm64")},
		{"option that is not there", "1", "-frob", []string{"-frob"}},
	} {
		if err := run(tt.args, tt.epoch, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
