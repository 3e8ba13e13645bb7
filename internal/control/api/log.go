package api

// Log is the reply to GET /v1/log: how lnetd logs.
type Log struct {
	// Level is the lowest that is logged: debug, info, warn or error.
	Level string `json:"level"`
	// Configured is what the configuration and the command line say, and what a
	// reload brings back.
	Configured string `json:"configured"`
	// Format is how lines are written now: json, text or journal.
	Format string `json:"format"`
}

// LogChange is the body of POST /v1/log.
type LogChange struct {
	Level string `json:"level"`
}

// LogLevels are the levels, from all to little.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }
