package peering

import (
	"errors"
	"log/slog"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// connections is the value of boundedlog.Line.Cause for all lines about a peer's connections.
const connections = "connections"

// TextConnected is the message that drivers log with LogRecovered about the first connection with a peer after a
// call to it has failed, or an earlier connection has ended because the peer did not answer.
const TextConnected = "peer is connected again"

// logPeer logs an event of a peer's connections.
func logPeer(log *boundedlog.Log, peer lnet.NID, level slog.Level, text string, attrs ...slog.Attr) {
	log.Report(boundedlog.Line{Level: level, Text: text, Cause: connections, Of: boundedlog.AboutPeer(peer)}, attrs...)
}

// logRecovered logs that a failure of a peer's connections has ended.
func logRecovered(log *boundedlog.Log, peer lnet.NID, text string) {
	log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: text, Cause: connections, Of: boundedlog.AboutPeer(peer), Recovery: true})
}

// logClosed logs that count connections to a peer have ended because of cause. The line is a warning if the
// peer broke the protocol.
func logClosed(log *boundedlog.Log, peer lnet.NID, count int, cause error) {
	level := slog.LevelInfo
	if errors.Is(cause, lnd.ErrProtocol) {
		level = slog.LevelWarn
	}
	log.Report(boundedlog.Line{
		Level: level, Text: "connections closed", Cause: connections, Of: boundedlog.AboutPeer(peer),
	}, slog.Int("count", count), slog.Any("cause", cause))
}
