package selftest

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// sessionInterval is between two messages about sessions.
const sessionInterval = 100 * time.Millisecond

// logLimits bound what others make a node log: of malformed requests one line a
// minute and sender, of sessions ten a second.
type logLimits struct {
	malformed *lnd.LogLimit[lnet.NID]
	sessions  *lnd.LogLimit[struct{}]
}

func newLogLimits() logLimits {
	return logLimits{
		malformed: lnd.NewLogLimit[lnet.NID](time.Minute, 64),
		sessions:  lnd.NewLogLimit[struct{}](sessionInterval, 1),
	}
}

// malformed logs a message that makes no sense.
func (a *Agent) malformed(from lnet.ProcessID, err error) {
	skipped, others, ok := a.logs.malformed.Pass(time.Now(), from.NID)
	if !ok {
		return
	}
	a.config.Logger.Warn("selftest: dropped a malformed request", "from", from.String(), "err", err,
		"not_logged", skipped, "not_logged_of_others", others)
}

// sessionLevel is the level at which to log what consoles do with sessions:
// anybody may make and end them as fast as he likes.
func (a *Agent) sessionLevel() slog.Level {
	if _, _, ok := a.logs.sessions.Pass(time.Now(), struct{}{}); ok {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
