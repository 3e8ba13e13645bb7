package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

var update = flag.Bool("update", false, "write what is said of the files in testdata/typos, and the schema")

// The messages for common mistakes. In testdata/typos, each file is followed by its messages.
//
// lnetctl 7 (2)
func TestTypos(t *testing.T) {
	options := daemon.AllDrivers().Options()
	files, err := filepath.Glob(filepath.Join("testdata", "typos", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for k := 0; k+1 < len(archive.Files); k += 2 {
			n++
			in, want := archive.Files[k], &archive.Files[k+1]
			_, err := config.Parse("lnet.conf", in.Data, options)
			if err == nil {
				t.Errorf("%s: no error", in.Name)
				continue
			}
			got := err.Error() + "\n"
			if *update {
				want.Data = []byte(got)
			} else if string(want.Data) != got {
				t.Errorf("%s: %s:\n%swant:\n%s", name, in.Name, got, want.Data)
			}
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, "lnet.conf:") || !strings.Contains(line, "; ") && !strings.Contains(line, ": warning: ") {
					t.Errorf("%s: %s: no place, or no remedy: %s", name, in.Name, line)
				}
			}
		}
		if *update {
			if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d typos", n)
	}
}
