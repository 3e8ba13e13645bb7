package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

// The examples on the page about configuration are valid.
func TestPage(t *testing.T) {
	for k, e := range examplesOfPage(t) {
		c, err := config.Parse("example", e, daemon.AllDrivers().Options())
		if err != nil {
			t.Errorf("example %d: %v", k, err)
		}
		for _, w := range c.Warnings {
			t.Errorf("example %d: %s", k, w)
		}
	}
}

func examplesOfPage(t *testing.T) (texts [][]byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		texts = append(texts, e[1])
	}
	if len(texts) < 4 {
		t.Errorf("%d examples", len(texts))
	}
	return texts
}
