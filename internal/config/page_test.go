package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/daemon"
)

// The examples of the page on configuration can be taken as they are.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) < 4 {
		t.Errorf("%d examples", len(examples))
	}
	for k, e := range examples {
		c, err := config.Parse("example", e[1], daemon.AllDrivers().Options())
		if err != nil {
			t.Errorf("example %d: %v", k, err)
		}
		for _, w := range c.Warnings {
			t.Errorf("example %d: %s", k, w)
		}
	}
}
