package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

func TestLoggerKeepsToItsLevel(t *testing.T) {
	for level, want := range map[slog.Level]int{
		slog.LevelDebug: 4, slog.LevelInfo: 3, slog.LevelWarn: 2, slog.LevelError: 1,
	} {
		var b bytes.Buffer
		log := NewLogger(&b, level, config.FormatAuto)
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e", "nid", "10.0.0.1@tcp")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("%v: %d lines, want %d:\n%s", level, got, want, b.String())
		}
		if !strings.Contains(b.String(), `"msg":"e","nid":"10.0.0.1@tcp"`) {
			t.Errorf("not JSON: %s", b.String())
		}
	}
}

func TestLoggerWritesText(t *testing.T) {
	var b bytes.Buffer
	NewLogger(&b, slog.LevelInfo, config.FormatText).Warn("hello", "n", 1)
	if !strings.Contains(b.String(), "\tWARN\thello\t{\"n\": 1}\n") {
		t.Errorf("%q", b.String())
	}
}
