package api

// LstStat is the body of POST /v1/lst/stat.
type LstStat struct {
	Key LstKey `json:"key"`
	// Targets are names of groups, or lists of NIDs.
	Targets []string `json:"targets,omitempty"`
	// Timeout bounds the wait, in seconds; it is held to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}
