package daemon

import (
	"io"
	"log/slog"
	"os"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// NewLogger returns lnetd's logger. It writes lines of at least the given level, which may change
// later, to w. With FormatJournal it writes to systemd's journal instead, and writes JSON to w only if
// the journal is not available. FormatAuto selects the journal if w is connected to it, text if w is a
// terminal, and JSON otherwise. Line breaks and control characters in attributes are escaped.
func NewLogger(w io.Writer, level slog.Leveler, format config.Format) *slog.Logger {
	format = formatFor(w, format)
	if format == config.FormatJournal {
		return slog.New(newJournalHandler(newJournal(journalSocket), level, newZapHandler(w, level, config.FormatJSON)))
	}
	return slog.New(newZapHandler(w, level, format))
}

// formatFor returns the format for w, which is never FormatAuto.
func formatFor(w io.Writer, format config.Format) config.Format {
	switch {
	case format != config.FormatAuto:
		return format
	case isJournal(w, os.Getenv("JOURNAL_STREAM")):
		return config.FormatJournal
	case isTerminal(w):
		return config.FormatText
	}
	return config.FormatJSON
}

// newZapHandler returns a handler that writes text or JSON with zap.
func newZapHandler(w io.Writer, level slog.Leveler, format config.Format) slog.Handler {
	e := zap.NewProductionEncoderConfig()
	e.TimeKey, e.MessageKey = "time", "msg"
	e.EncodeTime = zapcore.TimeEncoderOfLayout(time.RFC3339Nano)
	e.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder
	if format == config.FormatText {
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder
	}
	core := zapcore.NewCore(encoder(e), zapcore.Lock(zapcore.AddSync(printable{w})), enabler{level})
	return zapslog.NewHandler(core, zapslog.AddStacktraceAt(slog.LevelError+1))
}

// enabler makes zap use a level of slog, which may change.
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

// printable is a writer that expects one line per call, as zap writes them. It escapes characters that
// would end the line early or move a terminal's cursor. This is necessary because peers determine the
// text of some attributes, and zap escapes only ASCII characters.
type printable struct{ w io.Writer }

func (p printable) Write(line []byte) (int, error) {
	if !printableOnly(line) {
		if _, err := p.w.Write(escaped(line)); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return p.w.Write(line)
}

// printableOnly reports whether a line needs no escapes because it is ASCII without control characters,
// except for tabs and the final newline.
func printableOnly(line []byte) bool {
	for k, c := range line {
		if (c < ' ' || c > '~') && c != '\t' && (c != '\n' || k < len(line)-1) {
			return false
		}
	}
	return true
}

func escaped(line []byte) []byte {
	out := make([]byte, 0, len(line)+16)
	for k := 0; k < len(line); {
		r, n := utf8.DecodeRune(line[k:])
		k += n
		switch {
		case r == '\n' && k == len(line), r == '\t':
			out = append(out, byte(r))
		case unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		default:
			out = appendEscape(out, r)
		}
	}
	return out
}

// appendEscape appends the escape \uXXXX of a character. Characters beyond U+FFFF need two of them.
func appendEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	const first, low = 0x10000, 0xdc00
	if r >= first {
		out = appendEscape(out, 0xd800+(r-first)>>10)
		r = low + (r-first)&0x3ff
	}
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
