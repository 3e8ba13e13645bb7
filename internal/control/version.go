package control

import (
	"context"
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

func (h *handlers) version(context.Context, query) (Version, *Fault) { return h.Backend.Version(), nil }

// Version asks who the daemon is.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v, err
}
