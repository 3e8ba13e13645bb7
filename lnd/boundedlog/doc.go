// Package boundedlog is a log that stays small no matter what peers do.
//
// Peers and clients can make the same event happen thousands of times a second. Log.Report writes at most a few
// lines per minute for one cause, counts the other events, and adds their number to a later line. Lines about
// actions of the program or its administrator are written with the embedded slog.Logger and are not limited.
//
// The package runs no goroutine. A Log sets a timer while it has counted events to report.
package boundedlog
