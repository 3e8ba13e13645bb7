package selftest

import (
	"log/slog"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// malformed logs that a malformed request from a peer was dropped.
func (a *Agent) malformed(from lnet.ProcessID, err error) {
	a.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "selftest: dropped a malformed request", Of: boundedlog.AboutPeer(from.NID)},
		slog.Any("err", err))
}

// logSession logs an event of session id. The number of lines per console is limited, because any host can
// create and end sessions as fast as it wants.
func (a *Agent) logSession(text string, id message.SessionID, attrs ...slog.Attr) {
	a.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: text, Of: boundedlog.AboutPeer(id.NID.NID())}, append(attrs, slog.Any("session", id))...)
}
