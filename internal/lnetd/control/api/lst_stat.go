package api

// LstStat is the body of POST /v1/lst/stat.
type LstStat struct {
	Key LstKey `json:"key"`
	// Targets are names of groups, or lists of NIDs.
	Targets []string `json:"targets,omitempty"`
	// Timeout is the maximum wait in seconds. It is clamped to 3 to 30.
	Timeout int `json:"timeout,omitempty"`
}
