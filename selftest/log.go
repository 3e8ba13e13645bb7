package selftest

import (
	"log/slog"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// malformed logs a message that makes no sense.
func (a *Agent) malformed(from lnet.ProcessID, err error) {
	a.log.Tell(boundedlog.Line{Level: slog.LevelWarn, Text: "selftest: dropped a malformed request", Of: boundedlog.AboutPeer(from.NID)},
		slog.Any("err", err))
}

// tellSession logs what a console does with its session: anybody may make and end
// them as fast as he likes.
func (a *Agent) tellSession(text string, id message.SessionID, attrs ...slog.Attr) {
	a.log.Tell(boundedlog.Line{Level: slog.LevelInfo, Text: text, Of: boundedlog.AboutPeer(id.NID.NID())}, append(attrs, slog.Any("session", id))...)
}
