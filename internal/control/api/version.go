package api

import (
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

// BuildVersion is the version of the running program as its build recorded it.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
