package api

import (
	"cmp"
	"runtime/debug"
	"time"
)

// Version identifies the running daemon. It is the reply to GET /v1/version.
type Version struct {
	Program string    `json:"program"` // "lnetd"
	Version string    `json:"version"` // "v1.2.3", or "devel"
	Go      string    `json:"go"`      // toolchain: "go1.26.0"
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Uptime is the time in seconds since the start, by a clock that is never set. Differences of it are the time
	// between two samples of counters.
	Uptime float64 `json:"uptime_seconds"`
	// Stuck names the internal loops of the node that make no progress, separated by commas. That is a bug in
	// lnetd.
	Stuck string `json:"stuck,omitempty"`
}

// packaged and revision are the version and the commit of the sources if this program was built for a package.
// The linker sets them at the request of deploy/packages/build, because the sources of a package may not be
// under version control and builds must be reproducible.
var packaged, revision string

// BuildVersion returns the version that was recorded when the running program was built, or "devel".
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return cmp.Or(packaged, "devel")
	}
	return cmp.Or(packaged, info.Main.Version)
}

// BuildRevision returns the commit that the running program was built from, or "" if the build did
// not record it.
func BuildRevision() string {
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return revision
}
