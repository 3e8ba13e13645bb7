package daemon

import (
	"io"
	"log/slog"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/config"
)

// NewLogger returns lnetd's logger: zap, behind slog, writing lines of at
// least the given level, which may change, to w. FormatAuto writes text to a terminal and JSON
// elsewhere.
func NewLogger(w io.Writer, level slog.Leveler, format config.Format) *slog.Logger {
	e := zap.NewProductionEncoderConfig()
	e.TimeKey, e.MessageKey = "time", "msg"
	e.EncodeTime = zapcore.TimeEncoderOfLayout(time.RFC3339Nano)
	e.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder
	if format == config.FormatText || format == config.FormatAuto && isTerminal(w) {
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder
	}
	core := zapcore.NewCore(encoder(e), zapcore.Lock(zapcore.AddSync(w)), enabler{level})
	return slog.New(zapslog.NewHandler(core, zapslog.AddStacktraceAt(slog.LevelError+1)))
}

// enabler has zap ask slog for the level.
type enabler struct{ slog.Leveler }

func (e enabler) Enabled(l zapcore.Level) bool { return l >= zapLevel(e.Level()) }

func zapLevel(l slog.Level) zapcore.Level {
	switch {
	case l < slog.LevelInfo:
		return zapcore.DebugLevel
	case l < slog.LevelWarn:
		return zapcore.InfoLevel
	case l < slog.LevelError:
		return zapcore.WarnLevel
	}
	return zapcore.ErrorLevel
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
