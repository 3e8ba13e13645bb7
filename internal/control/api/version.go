package api

import (
	"cmp"
	"runtime/debug"
	"time"
)

// Version says which daemon answers: the reply to GET /v1/version.
type Version struct {
	Program string    `json:"program"` // "lnetd"
	Version string    `json:"version"` // "v1.2.3", or "devel"
	Go      string    `json:"go"`      // toolchain: "go1.26.0"
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// packaged and revision are the version and the commit that deploy/packages/build gives to
// the linker: its sources may lie outside of version control, and packages built anywhere
// shall be the same.
var packaged, revision string

// BuildVersion is the version of the running program as its build recorded it.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return cmp.Or(packaged, "devel")
	}
	return cmp.Or(packaged, info.Main.Version)
}

// BuildRevision is the commit that the running program was built from, "" if its build did
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
