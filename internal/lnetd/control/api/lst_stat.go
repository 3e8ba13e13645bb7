package api

// LstStat is the body of POST /v1/lst/stat, which returns the counters of nodes.
type LstStat struct {
	Key LstKey `json:"key"`
	// Targets are names of groups, or lists of NIDs.
	Targets []string `json:"targets,omitempty"`
	// Timeout is the maximum time in seconds to wait for the answers of nodes. A value outside of 3 to
	// 30 is changed to the nearest of these.
	Timeout int `json:"timeout,omitempty"`
}
